"""The base of what passes from one part of dlbench to another, or into a file."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A model that is never changed, and has no keys but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")
