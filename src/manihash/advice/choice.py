"""The result of ``choose``."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    radius : int
        Hamming radius for look-ups: the largest one at which the expected number of rows stays within
        ``max_candidates``. For codes of two parts (``imh-hybrid``) it is a radius of the first part.
    goal : str
        The goal that the score measures.
    relevance : {"labels", "clusters and neighbors"}
        Which rows count as relevant: rows of the query's label; or rows of the query's community of the
        neighbor graph (``map``, ``precision_at_10``) and the nearest 2 % of the rows (``nearest_map``,
        ``nearest_precision_at_10``).
    table : list of dict
        One record per candidate, best score first; ``pandas.DataFrame(choice.table)`` shows it as a table.
        Candidates that could not be measured have no score, but a ``reason``.
    reasons : list of str
        The advice in plain sentences.
    sample : str
        What the sample was.
    peer : str or None
        Quantizer of FAISS that serves the goal better with the same number of bytes, such as ``"faiss-pq"``;
        None if there is none, or if FAISS is not installed.
    random_state : int
        Seed of the measurement, and of the hasher that ``build`` returns.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manihash import choose
    >>> X, y = load_digits(return_X_y=True)
    >>> choice = choose(X[:400], n_bits=16, goal="ranking", labels=y[:400])
    >>> hasher = choice.build().fit(X)
    >>> hasher.encode(X).shape[1] * 8 == choice.n_bits
    True
    """

    recipe: str
    n_bits: int
    radius: int
    goal: str
    relevance: str
    table: list[dict[str, Any]]
    reasons: list[str]
    sample: str
    peer: str | None = None
    random_state: int = 0

    def build(self) -> Hasher:
        """Return the recommended hasher, not fitted yet.

        Returns
        -------
        Hasher
            An unfitted hasher; call ``fit`` with all rows.
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
        names = ("recipe", "n_bits", "radius", "goal", "peer")
        return {name: value for name in names if (value := getattr(self, name, None)) is not None}

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
