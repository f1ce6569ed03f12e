"""Vision-language policies, the pictures in their prompts, and PNG files."""

import base64
import io

import numpy as np
from numpy.typing import NDArray


def png(picture: NDArray[np.uint8]) -> bytes:
    """Return the PNG file of a picture, uint8 (height, width, 3)."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    return file.getvalue()


def picture_of(file: bytes) -> NDArray[np.uint8]:
    """Return the picture of a PNG file, uint8 (height, width, 3)."""
    from PIL import Image

    return np.array(Image.open(io.BytesIO(file)).convert("RGB"))


def data_url(picture: NDArray[np.uint8]) -> str:
    """Return a picture, uint8 (height, width, 3), as a PNG in a data URL."""
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode()
