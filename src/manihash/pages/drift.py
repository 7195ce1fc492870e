"""The plot of a comparison of new rows with the training rows: distances to the nearest landmark."""

import numpy as np

from manihash.maintenance.drift import Drift
from manihash.pages.curves import Curve, Drawn, Plot, Value, draw


def drift_plot(found: Drift) -> Drawn:
    """The shares of rows at most so far from the nearest landmark, of training rows and of new rows."""
    at = np.linspace(0, 1, found.quantiles.shape[1])
    curves = tuple(
        Curve(title, method, tuple(values.tolist()), tuple(Value(share) for share in at.tolist()))
        for title, method, values in zip(
            ("training rows", "new rows"), ("imh-tsne", "pcah"), found.quantiles, strict=True
        )
    )
    return draw(
        Plot("drift", "", "distance to the nearest landmark", "share of rows at most this far", curves)
    )
