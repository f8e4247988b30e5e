# Request: Which day in the next 10 days is the coldest in Helsinki?
forecast = await get_forecast("Helsinki", days=10)
coldest = min(forecast, key=lambda day: day.low_c)
print(f"{coldest.date} with {coldest.low_c}°C ({coldest.summary})")
hottest = max(forecast, key=lambda day: day.high_c)
print(f"For comparison, the warmest day is {hottest.date} with {hottest.high_c}°C.")
