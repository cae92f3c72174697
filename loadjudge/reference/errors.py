"""Errors that a client is told about."""

_TYPES = {400: "BadRequestError", 401: "AuthenticationError", 404: "NotFoundError"}


class ApiError(Exception):
    """An HTTP status and a sentence; sent as ``{"error": {"message", "type", "code"}}``."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def body(self) -> dict[str, dict[str, str | int | None]]:
        """The response body."""
        return {
            "error": {
                "message": str(self),
                "type": _TYPES.get(self.status, "InternalServerError"),
                "param": None,
                "code": self.status,
            }
        }
