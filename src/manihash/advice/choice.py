"""The result of ``choose``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from manihash.display import axes, frame, html, text
from manihash.hashers._hasher import Hasher
from manihash.hashers.recipes import recipe


@dataclass(frozen=True, eq=False)
class Choice:
    """A recommended encoder, and what it was compared with: the result of ``choose``.

    Parameters
    ----------
    recipe : str
        Name of the recommended recipe.
    n_bits : int
        Recommended length of the codes.
    radius : int or None
        Hamming radius for look-ups: the largest one at which the expected number of rows stays within
        ``max_candidates``. For codes of two parts (``imh-hybrid``) it is a radius of the first part. None for
        codes that are not looked up within a radius (``pq``, ``opq``).
    goal : str
        The goal that the score measures.
    relevance : {"labels", "clusters and neighbors"}
        Which rows count as relevant: rows of the query's label; or rows of the query's community of the
        neighbor graph (``map``, ``precision_at_10``) and the nearest 2 % of the rows (``nearest_map``,
        ``nearest_precision_at_10``).
    table : list of dict
        One record per candidate; ``pandas.DataFrame(choice.table)`` shows it as a table. Those that were
        measured on the whole sample (``final``) come first, best score first, then those that were measured
        on a few rows only. Candidates that could not be measured have no score, but a ``reason``.
    reasons : list of str
        The advice in plain sentences; the first one names the recommendation.
    sample : str
        What the sample was.
    uses_labels : bool
        Whether the recommended hasher learns from labels: ``choice.build().fit(X, labels)``.
    curve : list of dict
        The recommended recipe at several lengths, short codes first: ``n_bits``, ``bytes_per_row``, ``score``
        and its standard ``error``, on a few rows.
    knee : int or None
        Length in bits at which ``curve`` bends most: shorter codes lose more than longer ones gain. It is a
        property of the curve, not the recommended length, which is ``n_bits``. None if fewer than three
        lengths were measured.
    random_state : int
        Seed of the measurement, and of the hasher that ``build`` returns.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manihash import choose
    >>> X, y = load_digits(return_X_y=True)
    >>> choice = choose(X[:400], n_bits=16, goal="ranking", labels=y[:400])
    >>> hasher = choice.build().fit(X, y)
    >>> hasher.n_bits_ == choice.n_bits
    True
    """

    recipe: str
    n_bits: int
    radius: int | None
    goal: str
    relevance: str
    table: list[dict[str, Any]]
    reasons: list[str]
    sample: str
    uses_labels: bool = False
    curve: list[dict[str, Any]] = field(default_factory=list)
    knee: int | None = None
    random_state: int = 0

    def build(self) -> Hasher:
        """Return the recommended hasher, not fitted yet.

        Returns
        -------
        Hasher
            An unfitted hasher; call ``fit`` with all rows, and with labels if ``uses_labels``.
        """
        hasher: Hasher = recipe(self.recipe, n_bits=self.n_bits, random_state=self.random_state)
        return hasher

    @property
    def best(self) -> Mapping[str, Any]:
        """The record of the recommended candidate.

        Returns
        -------
        dict
            Its record in ``table``.
        """
        return next(row for row in self.table if _is(row, self.recipe, self.n_bits))

    def __str__(self) -> str:
        return " ".join(self.reasons)

    def __repr__(self) -> str:
        return text(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        return html(type(self).__name__, self._facts(), self.reasons, _without_reasons(self.table))

    def _facts(self) -> dict[str, Any]:
        """What the text of the choice says."""
        names = ("recipe", "n_bits", "radius", "goal")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def to_frame(self) -> Any:
        """Return the candidates as a table.

        Returns
        -------
        pandas.DataFrame
            One row per candidate, best score first, with the keys of ``table`` as columns.
        """
        return frame(self.table)

    def plot(self, ax: Any = None) -> Any:
        """Draw the score of each candidate against its bytes per row.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw on; None for new ones.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        ax = axes(ax, "bytes per row", f"score for the goal {self.goal}")
        measured = [row for row in self.table if row.get("score") is not None and "bytes_per_row" in row]
        for name in dict.fromkeys(row["recipe"] for row in measured):
            points = sorted((row["bytes_per_row"], row["score"]) for row in measured if row["recipe"] == name)
            ax.plot(*zip(*points, strict=True), marker=".", label=name)
        ax.legend()
        return ax


def _without_reasons(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The candidates that were measured, without texts beside their names."""
    return [
        {key: value for key, value in row.items() if key == "recipe" or not isinstance(value, str | Mapping)}
        for row in table
        if row.get("score") is not None
    ]


def _is(row: Mapping[str, Any], name: str, n_bits: int) -> bool:
    return bool(row["recipe"] == name and row["n_bits"] == n_bits)
