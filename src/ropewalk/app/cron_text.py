"""Simple cron lines in words: `every day at 02:30`."""

from __future__ import annotations

import re
from typing import Final

from ..config.settings import CRON_NAMES

_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY_NAMES: Final = {day[:3].lower(): number for number, day in enumerate(_DAYS[:7])}
_STEP: Final = re.compile(r"\*/([1-9]\d?)")


def cron_text(cron: str) -> str | None:
    """Return a cron line in words; None for one that has no short words."""
    fields = CRON_NAMES.get(cron.strip().lower(), cron).split()
    if len(fields) == 6 and fields[0] == "0":
        fields = fields[1:]
    if len(fields) != 5:
        return None
    minute, hour, date, month, weekday = fields
    if month != "*":
        return None
    if (date, weekday) == ("*", "*") and not (hour.isdigit() and minute.isdigit()):
        return _text_of_interval(minute, hour)
    day = _text_of_days(date, weekday)
    is_time = hour.isdigit() and minute.isdigit()
    return f"{day} at {int(hour):02}:{int(minute):02}" if day is not None and is_time else None


def _text_of_interval(minute: str, hour: str) -> str | None:
    if hour == "*" and not minute.isdigit():
        return _every(minute, 60, "minute")
    hours = _every(hour, 24, "hour")
    return f"{hours} at :{int(minute):02}" if hours is not None and minute.isdigit() else None


def _every(field: str, whole: int, unit: str) -> str | None:
    if field in ("*", "*/1"):
        return f"every {unit}"
    step = _STEP.fullmatch(field)
    return f"every {step[1]} {unit}s" if step is not None and whole % int(step[1]) == 0 else None


def _text_of_days(date: str, weekday: str) -> str | None:
    if date == "*":
        return "every day" if weekday == "*" else _text_of_weekdays(weekday)
    return f"on day {int(date)} of each month" if date.isdigit() and weekday == "*" else None


def _text_of_weekdays(weekday: str) -> str | None:
    numbers = [_DAY_NAMES.get(part, part) for part in re.split(r"[-,]", weekday.lower())]
    days = [_DAYS[int(number)] for number in numbers if str(number).isdigit() and int(number) < len(_DAYS)]
    if len(days) != len(numbers):
        return None
    if "-" not in weekday:
        return f"every {', '.join(days)}"
    return f"{days[0]} to {days[-1]}" if len(days) == 2 and "," not in weekday else None
