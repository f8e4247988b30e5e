# Request: get the forecast for Zurich and tell me the best 3 consecutive days for hiking in the next two weeks
forecast = await get_forecast("Zurich", days=14)


def day_score(d):
    score = 10.0
    score -= d.rain_mm * 2
    score -= abs(d.high_c - 20) * 0.3
    score -= max(0, d.wind_kmh - 20) * 0.1
    return score


scores = [day_score(d) for d in forecast]
best_start = max(range(len(scores) - 2), key=lambda i: sum(scores[i:i + 3]))

for d in forecast[best_start:best_start + 3]:
    print(f"{d.date}: {d.summary}, {d.low_c:.0f}-{d.high_c:.0f}°C, {d.rain_mm} mm")
