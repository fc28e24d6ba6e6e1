//! The pages of a watch: the live page, and the events that led to each violation.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use everhold_report::{Kind, Page, Window, live_page};
use everhold_trace::format::{ReadOptions, read_all};
use everhold_watch::export::Pages;

const HTML: &str = "text/html; charset=utf-8";

/// The pages of a watch with its evidence in this folder.
pub(super) fn pages(folder: &Path) -> Pages {
    let violations = folder.join("violations");
    Box::new(move |path| match path {
        "/" => Some((HTML, live_page())),
        _ => {
            let id = path.strip_prefix("/violations/")?.strip_suffix(".html")?;
            Some((HTML, violation(&violations, id)?))
        }
    })
}

/// The page of a violation, if the id is valid and the trace can be read.
fn violation(folder: &Path, id: &str) -> Option<String> {
    let plain = !id.is_empty() && id.chars().all(|c| c.is_ascii_hexdigit());
    let file: PathBuf = folder.join(format!("{id}.trace"));
    let file = File::open(file).ok().filter(|_| plain)?;
    let read = read_all(BufReader::new(file), &ReadOptions::strict()).ok()?;
    let trace = read.executions.first()?;
    let rule = trace.notes().get(everhold_trace::notes::PROPERTY);
    let headline = rule.and_then(everhold_trace::Value::as_text).unwrap_or(id);
    let mut page = Page::new(Kind::Violation, headline, &format!("everhold watch · {id}"));
    let window = Window { violating: trace.events().len().checked_sub(1), ..Window::default() };
    page.execution("what led to it", trace, &window);
    Some(page.html())
}
