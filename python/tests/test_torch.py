"""torch.compile(backend="talweg"), where PyTorch is installed."""

import warnings

import pytest

torch = pytest.importorskip("torch")

import talweg  # noqa: E402
from talweg.torch_backend import FallbackWarning  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.linear = torch.nn.Linear(8, 5)

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x)))
        return self.linear(y.mean((2, 3))), y


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_module_matches_eager():
    model = Block().eval()
    compiled = torch.compile(model, backend="talweg")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for shape in [(1, 3, 8, 8), (1, 3, 8, 8), (2, 3, 12, 12)]:
            x = torch.randn(shape)
            for found, wanted in zip(compiled(x), model(x)):
                close(found, wanted)


def test_changed_weights_are_seen():
    model = Block().eval()
    compiled = torch.compile(model, backend="talweg")
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        compiled(x)
        model.linear.weight.mul_(2)
        close(compiled(x)[0], model(x)[0])


def test_graph_breaks_leave_several_graphs():
    model = Block().eval()

    def function(x):
        y, _ = model(x)
        print("a graph break")
        return torch.softmax(y, -1)

    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        close(torch.compile(function, backend="talweg")(x), function(x))


def test_gradients_are_left_to_torch():
    model = Block().eval()
    compiled = torch.compile(model, backend="talweg")
    x = torch.randn(1, 3, 8, 8)
    with pytest.warns(FallbackWarning, match="gradients are wanted"):
        y, _ = compiled(x)
    y.sum().backward()
    assert model.conv.weight.grad is not None


def test_what_talweg_cannot_do_is_left_to_torch_and_named():
    def function(x):
        return torch.linalg.svdvals(x)

    x = torch.randn(4, 4)
    with torch.no_grad(), pytest.warns(FallbackWarning, match="svd"):
        close(torch.compile(function, backend="talweg")(x), function(x))


def test_graphs_that_write_to_their_inputs_are_left_to_torch():
    def function(x):
        x.add_(1)
        return x * 2

    x = torch.zeros(3)
    with torch.no_grad(), pytest.warns(FallbackWarning, match="writes to its input"):
        close(torch.compile(function, backend="talweg")(x), torch.full((3,), 2.0))
    close(x, torch.ones(3))


def test_random_numbers_are_left_to_torch():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.5)).train()
    compiled = torch.compile(model, backend="talweg")
    x = torch.randn(4, 64)
    with torch.no_grad(), pytest.warns(FallbackWarning):
        assert not torch.equal(compiled(x), compiled(x))


def test_inference_mode_and_other_types_work():
    def function(a, n):
        return a.half().float() + 1, n.cumsum(0), n > 2

    a, n = torch.randn(4, 4), torch.arange(5)
    with torch.inference_mode():
        for found, wanted in zip(torch.compile(function, backend="talweg")(a, n), function(a, n)):
            close(found, wanted)


def test_the_package_is_not_torch():
    import subprocess
    import sys

    code = "import talweg, sys; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert talweg.__version__
