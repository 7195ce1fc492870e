"""
A linear SVM on codes
=====================

A hasher is a transformer of scikit-learn: ``transform`` returns bits as 0 and 1. It works in pipelines, in
cross-validation and in a grid search. Here a linear SVM classifies digits by their codes.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from manihash import recipe
from manihash.hashers import ITQ, LSH

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=500, random_state=0, stratify=y)

# %%
# Accuracy against code length. The SVM is linear; the codes of IMH are not linear functions of the pixels.

methods = {
    "imh-tsne": lambda n_bits: recipe("imh-tsne", n_bits=n_bits, random_state=0),
    "itq": lambda n_bits: ITQ(n_bits, random_state=0),
    "lsh": lambda n_bits: LSH(n_bits, random_state=0),
}
lengths = [8, 16, 32, 60]
fig, axis = plt.subplots(figsize=(6.5, 3.8))
for name, method in methods.items():
    scores = []
    for n_bits in lengths:
        model = make_pipeline(method(n_bits), LinearSVC(C=0.1, random_state=0)).fit(X_train, y_train)
        scores.append(model.score(X_test, y_test))
    axis.plot(lengths, scores, "o-", label=name)
pixels = make_pipeline(StandardScaler(), LinearSVC(C=0.1, random_state=0)).fit(X_train, y_train)
axis.axhline(pixels.score(X_test, y_test), color="gray", linestyle="--", label="64 pixels, no code")
axis.set(xlabel="bits", ylabel="accuracy", xticks=lengths, ylim=(0.4, 1))
axis.legend()
plt.show()

# %%
# A grid search over options of the hasher: the step has the name of the class in lower case.

model = make_pipeline(recipe("imh-tsne", n_bits=32, random_state=0), LinearSVC(C=0.1, random_state=0))
search = GridSearchCV(model, {"imh__n_neighbors": [2, 5, 10]}, cv=3).fit(X_train, y_train)
print("best:", search.best_params_, f"accuracy {search.best_score_:.3f} in cross-validation")
