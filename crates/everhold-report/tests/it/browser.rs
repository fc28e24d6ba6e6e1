//! A real browser, driven over its debugging protocol.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tungstenite::{Message, WebSocket};

/// The time that the browser has to answer; generous, because machines are shared.
const PATIENCE: Duration = Duration::from_secs(60);

/// A headless browser with one page.
pub(crate) struct Browser {
    process: Child,
    socket: WebSocket<TcpStream>,
    folder: PathBuf,
    session: String,
    next: u64,
    /// The errors that the page logged, and every request that it made.
    pub(crate) errors: Vec<String>,
    pub(crate) requests: Vec<String>,
}

/// The path of the browser, if one is installed.
fn program() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    names.into_iter().find(|name| {
        let mut asked = Command::new(name);
        asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    })
}

impl Browser {
    /// Starts a browser. Without one the test is skipped, except in continuous integration.
    pub(crate) fn start() -> Option<Browser> {
        let Some(program) = program() else {
            assert!(
                std::env::var_os("CI").is_none(),
                "there is no Chromium; install the package `chromium`"
            );
            eprintln!("left out: there is no Chromium; install the package `chromium`");
            return None;
        };
        let unique = format!("{}-{:?}", std::process::id(), std::thread::current().id());
        let folder = std::env::temp_dir().join(format!("everhold-browser-{unique}"));
        std::fs::create_dir_all(&folder).expect("a folder for the browser's profile");
        let mut process = Command::new(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .arg(format!("--user-data-dir={}", folder.display()))
            .arg("about:blank")
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the browser starts");
        let stderr = BufReader::new(process.stderr.take().expect("it was asked for"));
        let mut lines = stderr.lines().map_while(Result::ok);
        let address = lines
            .find_map(|line| line.strip_prefix("DevTools listening on ws://").map(str::to_owned))
            .expect("the browser says where it listens");
        // The browser keeps writing; its output must be read, or the pipe fills and the browser
        // stops.
        std::thread::spawn(move || lines.for_each(drop));
        let host = address.split('/').next().expect("an address has a host");
        let stream = TcpStream::connect(host).expect("the browser listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket has time-outs");
        let (socket, _) = tungstenite::client(format!("ws://{address}"), stream)
            .expect("the browser speaks its protocol");
        let (errors, requests) = (Vec::new(), Vec::new());
        let session = String::new();
        let mut browser = Browser { process, socket, folder, session, next: 0, errors, requests };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = self.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        self.session = attached["sessionId"].as_str().expect("a session has a name").to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Sends a command to the browser and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, params: Json) -> Json {
        self.next += 1;
        let id = self.next;
        let mut request = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            request["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(request.to_string())).expect("the browser is there");
        loop {
            let answer = self.hear();
            if answer["id"] == json!(id) {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    fn hear(&mut self) -> Json {
        loop {
            let message = self.socket.read().expect("the browser answers in time");
            let Message::Text(text) = message else { continue };
            let said: Json = serde_json::from_str(&text).expect("the browser speaks JSON");
            self.note(&said);
            return said;
        }
    }

    fn note(&mut self, said: &Json) {
        let params = &said["params"];
        match said["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.errors.push(params["exceptionDetails"].to_string());
            }
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.errors.push(params["entry"]["text"].to_string());
            }
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => {
                self.errors.push(params["args"].to_string());
            }
            Some("Network.requestWillBeSent") => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            _ => {}
        }
    }

    /// Opens a file at a width, and waits until the page has drawn itself.
    pub(crate) fn open(&mut self, file: &Path, hash: &str, width: u32) {
        self.open_url(&format!("file://{}{hash}", file.display()), width);
    }

    /// Opens an address at a width, and waits until the page has drawn itself.
    pub(crate) fn open_url(&mut self, url: &str, width: u32) {
        let size = json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call("Page.navigate", json!({"url": "about:blank"}));
        self.requests.clear();
        self.call("Page.navigate", json!({"url": url}));
        self.wait("document.querySelector('header.page-head, [role=alert]') !== null");
        self.frame();
    }

    /// Waits for the next two frames: the first may only plan the second.
    pub(crate) fn frame(&mut self) {
        let script = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))";
        self.run(script);
    }

    /// The value of an expression in the page.
    pub(crate) fn run(&mut self, script: &str) -> Json {
        let params = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{script}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// The text of the first element that matches.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let script = format!("document.querySelector({})?.textContent ?? ''", json!(selector));
        self.run(&script).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, condition: &str) {
        for _ in 0..600 {
            if self.run(condition) == json!(true) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the page never came to {condition}; errors: {:?}", self.errors);
    }

    /// Presses a key, as a person would.
    pub(crate) fn key(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key, "text": text}));
        }
        self.frame();
    }

    /// Types a text at the cursor.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
        self.frame();
    }

    /// Clicks the middle of the first element that matches.
    pub(crate) fn click(&mut self, selector: &str) {
        let script = format!(
            "(() => {{ const e = document.querySelector({0}); e.scrollIntoView({{block: 'nearest'}}); \
             const r = e.getBoundingClientRect(); return [r.x + Math.min(r.width, 60) / 2, r.y + r.height / 2]; }})()",
            json!(selector)
        );
        let place = self.run(&script);
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", params);
        }
        self.frame();
    }

    /// Saves a screenshot of the page, to be looked at.
    pub(crate) fn picture(&mut self, file: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let text = shot["data"].as_str().expect("a picture is text");
        let bytes = everhold_trace::value::json::from_json(json!({"$bytes": text}));
        let Ok(everhold_trace::Value::Bytes(bytes)) = bytes else { panic!("a picture is base64") };
        std::fs::create_dir_all(file.parent().expect("pictures have a folder")).expect("a folder");
        std::fs::write(file, bytes).expect("the picture can be kept");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
