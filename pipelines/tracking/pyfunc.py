"""The model as MLflow runs it: MLflow keeps this file with the weights and executes it when the model is loaded.

Needs the `transformer` package, which is kept beside it, and nothing else of the project.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel

from transformer.translator import Translator


class TranslationModel(PythonModel):
    """`predict(["A sentence."])`, with the paper's search."""

    translator: Translator

    def load_context(self, context: Any) -> None:
        self.translator = Translator.load(Path(context.artifacts["config"]).parent)

    # MLflow makes the model's signature out of these types, and leaves out a context that is not asked for.
    def predict(self, model_input: list[str]) -> list[str]:  # type: ignore[override]
        return [translation.text for translation in self.translator.translate(model_input)]


set_model(TranslationModel())
