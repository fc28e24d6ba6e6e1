//! Pages, opened in a real browser.
//!
//! - `browser`: a headless Chromium, driven over its debugging protocol.
//! - `samples`: pages of every kind; `live`: the page that follows a watch.
//!
//! Without Chromium these tests are skipped with a message; with `CI` set they fail instead.
//! Screenshots are saved under `target/everhold-pictures`.

mod browser;
mod live;
mod samples;

use std::path::PathBuf;

use everhold_report::{Page, Window};
use serde_json::json;

use crate::browser::Browser;

fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")));
    target.join("everhold-pictures")
}

/// Writes a page, opens it at two widths, saves screenshots, and checks that nothing is wrong with
/// it.
fn opened(name: &str, page: &Page, hash: &str) -> Option<Browser> {
    let mut browser = Browser::start()?;
    let file = folder().join(format!("{name}.html"));
    std::fs::create_dir_all(folder()).expect("a folder for pages");
    std::fs::write(&file, page.html()).expect("the page can be written");
    let file = file.canonicalize().expect("it was written");
    for width in [700, 1400] {
        browser.open(&file, hash, width);
        browser.picture(&folder().join(format!("{name}-{width}.png")));
    }
    Some(browser)
}

/// Checks that no error was logged and that the page requested nothing but itself.
fn check_quiet(browser: &Browser) {
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
    let outside: Vec<_> = browser
        .requests
        .iter()
        .filter(|url| !url.starts_with("file:") && !url.starts_with("blob:"))
        .collect();
    assert!(outside.is_empty(), "{outside:?}");
    assert!(browser.requests.len() <= 1, "{:?}", browser.requests);
}

#[test]
fn a_violation_is_shown_and_can_be_walked_through() {
    let Some(mut browser) = opened("violation", &samples::violation(), "") else { return };
    assert!(browser.text(".badge").contains("VIOLATED"));
    assert_eq!(browser.text(".page-head h1"), "one leader per term");
    // The violating event is selected, with its changes and the values in the property's text.
    assert!(
        browser.text(".detail h2").contains("n3 · Granted ← n2"),
        "{}",
        browser.text(".detail h2")
    );
    assert!(
        browser.text(".diff").contains("\"candidate\"→\"leader\""),
        "{}",
        browser.text(".diff")
    );
    assert!(
        browser.text(".property pre").contains("a.term = 1"),
        "{}",
        browser.text(".property pre")
    );
    assert!(browser.text(".verdicts").contains("✗ one leader per term"));
    for what in
        [".band", ".arrow.lost", ".dot.kind-crash", ".event.turning", ".event.violating", ".down"]
    {
        let found = browser.run(&format!("document.querySelectorAll({}).length", json!(what)));
        assert!(found.as_u64() > Some(0), "there is no {what}");
    }
    // Keys: back one event, back to the same node's event, and to the violation again.
    browser.key("ArrowUp");
    assert!(browser.text(".detail h2").contains("n1 · Granted ← n2"));
    browser.key("ArrowLeft");
    assert!(
        browser.text(".detail h2").contains("n1 · timer election"),
        "{}",
        browser.text(".detail h2")
    );
    assert!(browser.text("[aria-live]").contains("timer election"));
    browser.key("v");
    assert!(browser.text(".event.selected").contains("violated here"));
    // The past of the event omits events on which it does not depend.
    browser.key("c");
    let dim = browser.run("document.querySelectorAll('.event.dim').length");
    assert_eq!(dim, json!(1), "only n1's last event is no cause");
    check_quiet(&browser);
}

#[test]
fn verdicts_are_shown_over_all_steps_and_lists_change_by_items() {
    let Some(mut browser) = opened("numbered", &samples::numbered(), "") else { return };
    // The second of two steps is violated, so the strip has both parts.
    for what in [".part-holds", ".part-violated", ".tick-bad", ".tick-now"] {
        let found = browser.run(&format!("document.querySelectorAll({}).length", json!(what)));
        assert_eq!(found, json!(1), "{what}");
    }
    // Steps have the numbers that the test's report gave them, not those of events.
    assert!(browser.text(".detail h2").starts_with("Step 7 "), "{}", browser.text(".detail h2"));
    let then = browser.text(".event.violating .then");
    assert!(then.contains("owned + 0") && !then.contains("owned["), "{then}");
    // Values stand beside expressions, never within a quoted name.
    let text = browser.text(".property pre");
    assert!(text.contains("\"every owned key\"") && text.contains("n.owned = [0, 1, 2]"), "{text}");
    browser.key("Home");
    assert!(browser.text(".detail h2").starts_with("Step 0 "), "{}", browser.text(".detail h2"));
    browser.run(
        "(() => { const box = document.querySelector('.strip .marks').getBoundingClientRect(); \
        document.querySelector('.strip').dispatchEvent(new MouseEvent('click', \
        { clientX: box.right - 1, clientY: box.top + 1, bubbles: true })); })()",
    );
    assert!(browser.text(".detail h2").starts_with("Step 7 "), "{}", browser.text(".detail h2"));
    check_quiet(&browser);
}

#[test]
fn searches_understand_text_and_properties() {
    let Some(mut browser) = opened("search", &samples::violation(), "") else { return };
    let mut check = |text: &str, hits: u64, how: &str| {
        browser.key("Escape");
        browser.key("/");
        browser.type_text(text);
        let found = browser.run("document.querySelectorAll('.event.hit').length");
        let status = browser.text(".controls [role=status]");
        assert_eq!(found, json!(hits), "{text}: {status}");
        assert!(status.contains(how), "{text}: {status}");
    };
    check("granted", 4, "text");
    check("role == \"leader\"", 2, "property");
    check("exists a in nodes: a.role == \"leader\" and a.term == 1", 2, "property");
    check("count(a in nodes: a.role == \"candidate\") == 2", 2, "property");
    check("event == \"timer\" and node == \"n3\"", 1, "property");
    check("1 in votes and len(votes) == 2", 1, "property");
    check("role == ", 0, "ends too early");
    check_quiet(&browser);
}

#[test]
fn a_link_shows_the_same_again() {
    let Some(mut browser) = opened("link", &samples::violation(), "#step=4&q=Vote") else { return };
    assert!(browser.text(".detail h2").starts_with("Step 4 "), "{}", browser.text(".detail h2"));
    assert_eq!(browser.run("document.querySelector('input[type=search]').value"), json!("Vote"));
    browser.click(".event:first-child");
    assert!(browser.run("location.hash").to_string().contains("step=0"));
    check_quiet(&browser);
}

#[test]
fn nodes_and_kinds_can_be_left_out() {
    let Some(mut browser) = opened("filter", &samples::violation(), "") else { return };
    let events = |browser: &mut Browser| browser.run("document.querySelectorAll('.event').length");
    assert_eq!(events(&mut browser), json!(11));
    browser.run(
        "[...document.querySelectorAll('.chips button')].find(b => b.textContent === 'n2').click()",
    );
    browser.frame();
    assert_eq!(events(&mut browser), json!(6));
    browser.run("[...document.querySelectorAll('.chips button')].find(b => b.textContent === 'start').click()");
    browser.frame();
    assert_eq!(events(&mut browser), json!(4));
    check_quiet(&browser);
}

#[test]
fn a_slow_execution_is_beside_a_fast_one() {
    let Some(mut browser) = opened("slow", &samples::slow(), "") else { return };
    assert_eq!(browser.run("document.querySelectorAll('.pair .diagram').length"), json!(2));
    assert!(browser.text(".event.turning").contains("P(good) falls"));
    assert_eq!(browser.run("document.querySelectorAll('figure svg').length"), json!(2));
    assert!(browser.text(".marker text").contains("divergence"));
    browser.run(
        "document.querySelector('circle.link:nth-of-type(20)')?.dispatchEvent(new Event('click'))",
    );
    browser.frame();
    assert!(browser.text(".detail h2").starts_with("Step "));
    // A wait is visible on the time axis, which is the default here.
    assert!(browser.text(".gap").contains("10 s"), "{}", browser.text(".gap"));
    let events = "document.querySelectorAll('.frame:first-child .event').length";
    let all = browser.run(events).as_u64();
    let boxes = "[...document.querySelectorAll('.controls label')]";
    browser.run(&format!("{boxes}.find(l => l.textContent === 'critical path only').click()"));
    browser.frame();
    assert!(browser.run(events).as_u64() < all, "the critical path is shorter");
    check_quiet(&browser);
}

#[test]
fn an_exception_opens_its_execution() {
    let Some(mut browser) = opened("almost", &samples::almost(), "") else { return };
    browser.run("document.querySelectorAll('.plain button')[1].click()");
    browser.frame();
    assert!(browser.text(".detail h2").starts_with("Step 8 "), "{}", browser.text(".detail h2"));
    assert_eq!(browser.run("document.querySelector('select').value"), json!("1"));
    check_quiet(&browser);
}

#[test]
fn a_clean_run_says_what_it_did() {
    let Some(mut browser) = opened("clean", &samples::clean(), "") else { return };
    assert!(browser.text(".badge").contains("NO VIOLATION"));
    assert!(browser.text(".notice").contains("not a proof"));
    check_quiet(&browser);
}

#[test]
fn nothing_recorded_becomes_markup() {
    let Some(mut browser) = opened("hostile", &samples::hostile(), "") else { return };
    for key in ["v", "c", "?"] {
        browser.key(key);
    }
    assert_eq!(browser.run("window.hacked === undefined"), json!(true));
    assert_eq!(browser.run("document.querySelectorAll('img').length"), json!(0));
    assert_eq!(browser.text(".page-head h1"), samples::HOSTILE);
    check_quiet(&browser);
}

/// Drawing depends on what is in view, not on the length: a frame of 100,000 events is drawn about
/// as fast as one of 1,000. The bound is wide, because machines are shared.
#[test]
fn a_long_execution_is_drawn_in_parts() {
    let Some(mut browser) = opened("long", &samples::long(100_000), "") else { return };
    let drawn =
        browser.run("document.querySelectorAll('.event').length").as_u64().expect("a number");
    assert!(drawn < 200, "{drawn} events are drawn at once");
    browser.run("document.querySelector('.diagram').scrollTop = 1_300_000");
    browser.frame();
    assert!(
        browser.text(".events").contains("timer recovery")
            || browser.text(".events").contains("4999")
    );
    browser.key("n");
    check_quiet(&browser);
}

#[test]
fn a_window_says_what_is_not_in_it() {
    let mut page = Page::new(everhold_report::Kind::Trace, "a window", "ring");
    let window = Window { violating: Some(8), events_max: 6, ..Window::default() };
    page.execution("election", &samples::election(), &window);
    let Some(mut browser) = opened("window", &page, "") else { return };
    assert!(
        browser.text(".stage .notice").contains("the events 4 to 9"),
        "{}",
        browser.text(".stage .notice")
    );
    assert!(browser.text(".detail h2").starts_with("Step 8 "), "{}", browser.text(".detail h2"));
    check_quiet(&browser);
}

#[test]
fn a_page_of_another_version_says_so() {
    let Some(mut browser) = Browser::start() else { return };
    let html = samples::clean().html().replace("\"version\":1", "\"version\":99");
    let file = folder().join("version.html");
    std::fs::create_dir_all(folder()).expect("a folder for pages");
    std::fs::write(&file, html).expect("the page can be written");
    browser.open(&file.canonicalize().expect("it was written"), "", 700);
    assert!(browser.text("[role=alert]").contains("its data of version 99"));
}
