"""A headless Chromium driven over the DevTools protocol, with the standard library alone."""

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
import zlib
from pathlib import Path

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
]


class WebSocket:
    """As much of a web socket as DevTools needs: text frames both ways."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(4096)
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(f"DevTools refused the connection: {head[:200]!r}")

    def send(self, text):
        data = text.encode()
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x81, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x81, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x81, 0x80 | 127, size)
        # A mask of zeros is a mask too, and leaves the data as it is.
        self.socket.sendall(head + b"\0\0\0\0" + data)

    def read(self, count):
        while len(self.buffer) < count:
            part = self.socket.recv(1 << 16)
            if not part:
                raise RuntimeError("the browser closed the connection")
            self.buffer += part
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def receive(self):
        """The next message, or None for a frame that is not one."""
        parts = []
        while True:
            first, second = self.read(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", self.read(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self.read(8))
            data = self.read(size)
            if first & 0x0F in (0, 1, 2):
                parts.append(data)
                if first & 0x80:
                    return b"".join(parts).decode()
            elif first & 0x0F == 8:
                raise RuntimeError("the browser closed the connection")


class Browser:
    """A headless Chromium with a profile of its own; ends with the `with` block."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="talweg-browser-")
        command = ["chromium", *FLAGS, f"--user-data-dir={self.folder}/profile", "about:blank"]
        self.log = open(f"{self.folder}/log", "w+")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        port_file = Path(self.folder, "profile", "DevToolsActivePort")
        deadline = time.monotonic() + 60
        while not (port_file.exists() and len(port_file.read_text().splitlines()) == 2):
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.log.seek(0)
                raise RuntimeError(f"chromium did not start:\n{self.log.read()[-2000:]}")
            time.sleep(0.05)
        self.port = int(port_file.read_text().splitlines()[0])
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def page(self, width=1280, height=900):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=30) as answer:
            target = json.load(answer)
        return Page(target["webSocketDebuggerUrl"], width, height)


class Page:
    """One tab. Everything that goes wrong in it is collected in `problems`."""

    def __init__(self, url, width, height):
        self.socket = WebSocket(url)
        self.number = 0
        self.problems = []
        self.events = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def call(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def note(self, message):
        """Keeps an event, and what it says of problems."""
        method, params = message.get("method"), message.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(f"console.{params['type']}: {params['args']}")
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def open(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + 30
        while "Page.loadEventFired" not in self.events:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{url} was not loaded in time")
            self.evaluate("1")
            time.sleep(0.02)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression, seconds=30):
        """Waits until an expression is true."""
        deadline = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"still not true after {seconds} s: {expression}")
            time.sleep(0.1)
        return value

    def theme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def move(self, selector, across=0.5, down=0.5):
        """Moves the pointer over an element, to a part of its width and height."""
        box = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"
        )
        x, y = box[0] + box[2] * across, box[1] + box[3] * down
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def click(self, selector):
        x, y = self.move(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, whole=True):
        """The page as PNG."""
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        else:
            data = self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(data["data"])


def colours(png):
    """How many different rows of pixels and how many different pixels a PNG has: one of each if it is blank."""
    at, data, width, height, depth = 8, b"", 0, 0, 0
    while at < len(png):
        size, kind = struct.unpack("!I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height = struct.unpack("!II", body[:8])
            depth = {2: 3, 6: 4}[body[9]]
        elif kind == b"IDAT":
            data += body
        at += 12 + size
    raw = zlib.decompress(data)
    line = width * depth + 1
    rows = {raw[row * line : (row + 1) * line] for row in range(height)}
    pixels = {row[at : at + depth] for row in list(rows)[:400] for at in range(1, line, depth)}
    return len(rows), len(pixels)
