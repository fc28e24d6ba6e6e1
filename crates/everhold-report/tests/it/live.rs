//! The page that follows a watch, with a server that answers as a watch does.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use serde_json::{Value as Json, json};

use crate::browser::Browser;
use crate::{folder, samples};

/// Serves `/` with the page and `/status.json` with the result of `status` for the n-th request,
/// until that is `None`. Returns the address.
fn serve(status: fn(u64) -> Option<Json>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    let asked = Arc::new(AtomicU64::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let asked = Arc::clone(&asked);
            thread::spawn(move || answer(stream, status, &asked));
        }
    });
    format!("http://{address}/")
}

fn answer(mut stream: TcpStream, status: fn(u64) -> Option<Json>, asked: &AtomicU64) {
    let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
    let Some(Ok(first)) = lines.next() else { return };
    let body = if first.starts_with("GET /status.json") {
        match status(asked.fetch_add(1, Relaxed)) {
            Some(status) => status.to_string(),
            None => return,
        }
    } else {
        everhold_report::live_page()
    };
    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
    let kind = if body.starts_with('{') { "application/json" } else { "text/html; charset=utf-8" };
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
}

/// Checks that the page requested nothing from other servers.
fn check_local(browser: &Browser, address: &str) {
    let outside: Vec<_> = browser
        .requests
        .iter()
        .filter(|url| !url.starts_with(address) && !url.starts_with("data:"))
        .collect();
    assert!(outside.is_empty(), "{outside:?}");
}

#[test]
fn a_watch_is_followed() {
    let Some(mut browser) = Browser::start() else { return };
    let address = serve(|at| Some(samples::status(at)));
    for width in [700, 1400] {
        browser.open_url(&address, width);
        browser.wait("document.querySelectorAll('figure svg').length === 2");
        browser.picture(&folder().join(format!("live-{width}.png")));
    }
    assert!(browser.text(".badge").contains("VIOLATED"));
    let text = browser.text("main");
    for part in ["lock holders are consistent for 7", "n2.locks[7]", "3 of 4", "not watched"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    browser.click(".plain-button");
    assert!(browser.text("tbody pre").contains("forall a, b in nodes"));
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
    check_local(&browser, &address);
}

#[test]
fn a_watch_that_is_gone_is_said_to_be() {
    let Some(mut browser) = Browser::start() else { return };
    let address = serve(|at| (at < 2).then(|| samples::status(at)));
    browser.open_url(&address, 700);
    browser.wait("document.querySelector('.badge').textContent.includes('NOT CONNECTED')");
    assert!(browser.text("[role=status]").contains("does not answer"));
    assert!(browser.text("main").contains("lock holders are consistent"), "what it said stays");
}

#[test]
fn nothing_that_a_watch_says_becomes_markup() {
    let Some(mut browser) = Browser::start() else { return };
    let address = serve(|_| Some(samples::hostile_status()));
    browser.open_url(&address, 700);
    browser.wait("document.querySelectorAll('article').length === 2");
    browser.click(".plain-button");
    assert_eq!(browser.run("window.hacked === undefined"), json!(true));
    assert_eq!(browser.run("document.querySelectorAll('img').length"), json!(0));
    assert!(browser.text("main").contains(samples::HOSTILE));
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
    check_local(&browser, &address);
}

#[test]
fn a_watch_of_another_version_is_refused() {
    let Some(mut browser) = Browser::start() else { return };
    let address = serve(|_| Some(json!({ "version": 99 })));
    browser.open_url(&address, 700);
    browser.wait("document.querySelector('[role=status]').textContent.includes('version 99')");
}
