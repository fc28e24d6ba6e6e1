//! The page as one file: data and script.

use crate::page::Page;

const TEMPLATE: &str = include_str!("../page/page.html");
const LIVE: &str = include_str!("../page/live.html");
const STYLE: &str = include_str!("../page/style.css");

/// The modules of the page that follows a watch, each after those it imports.
const LIVE_MODULES: [(&str, &str); 5] = [
    ("values.js", include_str!("../page/values.js")),
    ("model.js", include_str!("../page/model.js")),
    ("dom.js", include_str!("../page/dom.js")),
    ("charts.js", include_str!("../page/charts.js")),
    ("live.js", include_str!("../page/live.js")),
];

/// The modules of a report, each after those it imports.
const MODULES: [(&str, &str); 12] = [
    ("values.js", include_str!("../page/values.js")),
    ("model.js", include_str!("../page/model.js")),
    ("query.js", include_str!("../page/query.js")),
    ("dom.js", include_str!("../page/dom.js")),
    ("rows.js", include_str!("../page/rows.js")),
    ("diagram.js", include_str!("../page/diagram.js")),
    ("mermaid.js", include_str!("../page/mermaid.js")),
    ("detail.js", include_str!("../page/detail.js")),
    ("charts.js", include_str!("../page/charts.js")),
    ("sections.js", include_str!("../page/sections.js")),
    ("strip.js", include_str!("../page/strip.js")),
    ("app.js", include_str!("../page/app.js")),
];

/// Data smaller than this is not compressed, so that it can be read in the file.
#[cfg(feature = "gzip")]
const PLAIN_MAX: usize = 64 * 1024;

/// The page with its data.
pub(crate) fn page(data: &Page) -> String {
    let json = serde_json::to_string(data).expect("a page is plain data");
    let (form, text) = embed(&json);
    // The parts are inserted from last to first, so that no placeholder is searched for within
    // inserted text.
    let (head, tail) = split(TEMPLATE, "/*SCRIPT*/");
    let (head, between) = split(head, ">DATA<");
    let head = head.replacen("FORM", form, 1);
    let (before, after) = split(&head, "/*STYLE*/");
    [before, STYLE, after, ">", &text, "<", between, &script(&MODULES), tail].concat()
}

/// The page that follows a watch: it asks `/status.json` of the server that it came from.
#[must_use]
pub fn live_page() -> String {
    let (head, tail) = split(LIVE, "/*SCRIPT*/");
    let (before, after) = split(head, "/*STYLE*/");
    [before, STYLE, after, &script(&LIVE_MODULES), tail].concat()
}

fn split<'a>(text: &'a str, mark: &str) -> (&'a str, &'a str) {
    text.split_once(mark).expect("the template has every mark")
}

/// Joins all modules into one script, because a page that is opened from a file cannot import
/// others.
fn script(modules: &[(&str, &str)]) -> String {
    let mut script = String::new();
    for (name, text) in modules {
        script.push_str(&format!("// {name}\n"));
        for line in text.lines().filter(|line| !line.starts_with("import ")) {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    script
}

#[cfg(feature = "gzip")]
fn embed(json: &str) -> (&'static str, String) {
    use std::io::Write;

    if json.len() < PLAIN_MAX {
        return ("json", escaped(json));
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(json.as_bytes()).expect("writing to memory does not fail");
    let bytes = encoder.finish().expect("writing to memory does not fail");
    ("gzip", everhold_trace::value::json::base64(&bytes))
}

#[cfg(not(feature = "gzip"))]
fn embed(json: &str) -> (&'static str, String) {
    ("json", escaped(json))
}

/// Escapes JSON so that no HTML parser can take it for markup.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Modules are joined by removing these keywords, so the keywords must stand alone at the start
    /// of a line, and no two modules may use the same top-level name.
    #[test]
    fn the_modules_join() {
        check(&MODULES);
        check(&LIVE_MODULES);
    }

    fn check(modules: &[(&str, &str)]) {
        let script = script(modules);
        assert!(!script.lines().any(|l| l.starts_with("import ") || l.starts_with("export ")));
        let mut names = std::collections::BTreeSet::new();
        for line in script.lines() {
            let mut words = line.split([' ', '(', '=']);
            let declares = matches!(words.next(), Some("function" | "class" | "const" | "async"));
            let name = words.find(|word| !word.is_empty() && *word != "function");
            if declares {
                assert!(names.insert(name), "{name:?} is declared twice");
            }
        }
        for (name, text) in modules {
            let imports = text.lines().filter(|line| line.starts_with("import "));
            for line in imports {
                assert!(line.contains(" from \"./"), "{name} imports from outside: {line}");
                assert!(line.ends_with(';'), "{name} has an import over several lines: {line}");
            }
            assert!(!text.contains("innerHTML"), "{name} makes markup of text");
        }
    }

    #[test]
    fn data_cannot_leave_its_element() {
        let text = escaped("\"</script><script>alert(1)</script><!--\"");
        assert!(!text.contains(['<', '>']), "{text}");
        assert_eq!(
            serde_json::from_str::<String>(&text).expect("it is still JSON"),
            "</script><script>alert(1)</script><!--"
        );
    }
}
