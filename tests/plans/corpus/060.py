# Request: is it warmer in Madrid or in Athens?
madrid = await get_weather("Madrid")
athens = await get_weather("Athens")

if madrid.temp_c > athens.temp_c:
    answer = "Madrid"
elif athens.temp_c > madrid.temp_c:
    answer = "Athens"
else:
    answer = "Neither, it's equally warm"

print(f"{answer} (Madrid {madrid.temp_c}°C, Athens {athens.temp_c}°C)")
