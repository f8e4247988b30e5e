# Request: Convert this time: our meeting ev at 2025-07-03 16:00 Berlin: what is it in New York, Tokyo and for each attendee's location? Just the three cities.
from datetime import datetime
from zoneinfo import ZoneInfo

berlin = datetime(2025, 7, 3, 16, 0, tzinfo=ZoneInfo("Europe/Berlin"))
zones = {"New York": "America/New_York", "Tokyo": "Asia/Tokyo", "London": "Europe/London"}

for city, zone in zones.items():
    local = berlin.astimezone(ZoneInfo(zone))
    print(f"{city}: {local:%a %d %b %H:%M} ({local.tzname()})")
