"""Drives a headless Chromium over DevTools' pipe, for tests of pages."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile

import pytest

CHROMIUM = shutil.which("chromium")

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


class Page:
    """One tab. `problems` holds what its console and its security policy complained of."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        flags += ["--remote-debugging-pipe", f"--user-data-dir={self._profile.name}"]
        # DevTools reads from file descriptor 3 and writes to 4; the shell puts the pipes there,
        # whatever numbers they have here.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", CHROMIUM, *flags],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers, self._buffer, self._session = itertools.count(1), b"", None
        self.problems = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(20)
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def _message(self):
        while b"\0" not in self._buffer:
            chunk = os.read(self._in, 1 << 16)
            assert chunk, "chromium ended"
            self._buffer += chunk
        text, self._buffer = self._buffer.split(b"\0", 1)
        said = json.loads(text)
        method, about = said.get("method"), said.get("params", {})
        if method == "Log.entryAdded":
            self.problems.append(about["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.problems.append(details.get("exception", details).get("description", str(details)))
        return said

    def call(self, method, **params):
        """The result of a method of the DevTools protocol."""
        number = next(self._numbers)
        request = {"id": number, "method": method, "params": params}
        if self._session:
            request["sessionId"] = self._session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            said = self._message()
            if said.get("id") == number:
                assert "error" not in said, f"{method}: {said}"
                return said["result"]

    def open(self, path):
        self.problems.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def run(self, script):
        """The value of an expression, of its promise if it is one."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def size(self, width, height=900, mobile=False):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def prefer(self, **features):
        """prefer(color_scheme="dark")"""
        wanted = [
            {"name": "prefers-" + k.replace("_", "-"), "value": v} for k, v in features.items()
        ]
        self.call("Emulation.setEmulatedMedia", features=wanted)

    def screenshot(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
