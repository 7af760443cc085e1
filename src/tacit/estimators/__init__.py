"""scikit-learn regressors and classifiers: thin, one file per method."""

from tacit.estimators._files import load

__all__ = ["load"]
