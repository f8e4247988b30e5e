from engine.lab import run_async_test as pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]
