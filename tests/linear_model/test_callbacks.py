"""Progress of gradient steps: callbacks and ``verbose``, which see no data."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from skdp import BudgetAccountant
from skdp.exceptions import BudgetExceededError
from skdp.linear_model import DPHuberRegressor, DPLinearSVC, DPLogisticRegression

KINDS = (DPLogisticRegression, DPLinearSVC, DPHuberRegressor)

try:
    from sklearn.callback import FitCallback
except ImportError:
    FitCallback = None

needs_callbacks = pytest.mark.skipif(
    FitCallback is None, reason="scikit-learn has callbacks from version 1.9 on"
)


class Recorder:
    """Keeps everything it is given; stops after some steps."""

    def __init__(self, stop=None):
        self.stop, self.events, self.seen, self.attributes = stop, [], [], []

    def setup(self, estimator, context):
        self.note("setup", estimator, context, {})

    def teardown(self, estimator, context):
        self.note("teardown", estimator, context, {})

    def on_fit_task_begin(self, estimator, context, **given):
        self.note("begin", estimator, context, given)

    def on_fit_task_end(self, estimator, context, **given):
        self.note("end", estimator, context, given)
        return self.stop is not None and self.steps("end") >= self.stop

    def note(self, name, estimator, context, given):
        self.events.append((name, context.task_name))
        self.seen += [value for value in given.values() if value is not None]
        self.attributes.append(set(vars(estimator)) - set(estimator.get_params()))

    def steps(self, name):
        return self.events.count((name, "gradient-step"))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 3)), np.arange(60) % 2


def make(kind=DPLogisticRegression, **options):
    if kind is not DPHuberRegressor:
        options.setdefault("classes", [0, 1])
    return kind(**{"method": "gradient", "steps": 7, **options})


@needs_callbacks
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batches", ["full", "disjoint"])
def test_callbacks_see_every_step_and_nothing_else(data, kind, batches):
    recorder = Recorder()
    model = make(kind, batches=batches).set_callbacks(recorder).fit(*data)
    assert recorder.steps("begin") == recorder.steps("end") == 7
    assert recorder.events[0] == ("setup", "fit")
    assert recorder.events[-1] == ("teardown", "fit")
    # What scikit-learn fills in by itself when asked for X or y must not come either.
    assert recorder.seen == []
    allowed = {"n_features_in_", "classes_", "margin_"}
    for names in recorder.attributes[:-2]:
        assert {name for name in names if not name.startswith("_")} <= allowed
    # Private attributes hold neither rows nor coefficients.
    text = pickle.dumps({k: v for k, v in vars(model).items() if k != "_skl_callbacks"})
    assert not any(row.tobytes() in text for row in data[0])


@needs_callbacks
def test_nothing_un_noised_hangs_on_the_estimator_during_the_fit(data):
    found = []

    class Look(Recorder):
        def on_fit_task_end(self, estimator, context, **given):
            for name, value in vars(estimator).items():
                if isinstance(value, np.ndarray) and name != "classes_":
                    found.append(name)

    make(accountant=None).set_callbacks(Look()).fit(*data)
    assert set(found) <= {"coef_", "intercept_"}
    found.clear()

    class Early(Look):
        def on_fit_task_end(self, estimator, context, **given):
            if context.task_name == "gradient-step":
                super().on_fit_task_end(estimator, context, **given)

    make().set_callbacks(Early()).fit(*data)
    assert found == []


@needs_callbacks
def test_a_callback_can_stop(data):
    accountant = BudgetAccountant(10.0, 1e-4)
    recorder = Recorder(stop=3)
    model = make(accountant=accountant).set_callbacks(recorder).fit(*data)
    assert recorder.steps("end") == 3
    assert np.isfinite(model.coef_).all()
    assert len(accountant.spends) == 1  # all steps are paid for in advance
    assert accountant.spends[0].event == model.privacy_cost(60, 3)


@needs_callbacks
def test_methods_without_steps(data):
    for method in ("objective", "output"):
        recorder = Recorder()
        make(method=method).set_callbacks(recorder).fit(*data)
        assert recorder.events == [
            ("setup", "fit"),
            ("begin", "fit"),
            ("end", "fit"),
            ("teardown", "fit"),
        ]
        assert recorder.seen == []


@needs_callbacks
def test_copies_keep_callbacks(data):
    model = make().set_callbacks(Recorder()).fit(*data)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert set(vars(again)) == set(vars(model))
    assert "_progress_context" not in vars(model)
    clone(model).fit(*data)
    assert model.set_callbacks().fit(*data).coef_.shape == (1, 3)


@needs_callbacks
def test_callbacks_do_not_change_the_noise(data):
    plain = make(random_state=0).fit(*data)
    watched = make(random_state=0).set_callbacks(Recorder()).fit(*data)
    np.testing.assert_array_equal(plain.coef_, watched.coef_)


def test_a_refused_fit_leaves_nothing_of_its_progress(data):
    model = make(accountant=BudgetAccountant(0.01, 1e-9))
    if FitCallback is not None:
        model.set_callbacks(Recorder())
    with pytest.raises(BudgetExceededError):
        model.fit(*data)
    assert "_progress_context" not in vars(model)


@pytest.mark.parametrize("kind", KINDS)
def test_verbose_counts_the_steps(data, kind, capsys):
    make(kind, verbose=1).fit(*data)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7 and lines[0] == f"[{kind.__name__}] step 1 of 7"
    make(kind).fit(*data)
    make(kind, verbose=1, method="objective").fit(*data)
    assert capsys.readouterr().out == ""
