"""What a turn costs, estimated from the prices of `genai-prices`."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import ModelError


def cost_of(model: str, usage: Mapping[str, int]) -> float | None:
    """US dollars for the tokens of a turn; None where the price of the model is not known."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    read, written = usage.get("cache_read_input_tokens", 0), usage.get("cache_creation_input_tokens", 0)
    counted = Usage(
        input_tokens=usage.get("input_tokens", 0) + read + written,  # there it is the sum of all
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=usage.get("output_tokens", 0),
    )
    try:
        return float(calc_price(counted, model_ref=model, provider_id="anthropic").total_price)
    except LookupError:
        return None


def no_price(model: str) -> ModelError:
    """Why a conversation with a budget of money is refused."""
    return ModelError(f"no price is known for {model}; set a token_budget instead of a cost_budget")
