//! Profiles of budgets: `[profile.NAME]` in the `everhold.toml` of a workspace, chosen with
//! `EVERHOLD_PROFILE`.
//!
//! ```toml
//! [profile.ci]
//! seconds = 20
//!
//! [profile.nightly]
//! scale = 100
//! seed = 7
//! ```
//!
//! A key is the name of a variable of the environment without `EVERHOLD_`, in small letters; the
//! variable wins if both are set. The reader knows the part of TOML that whole numbers need, so
//! that a test does not compile more.

use std::path::{Path, PathBuf};

/// The file, which is looked for in the current folder and above.
const FILE: &str = "everhold.toml";

/// The variables that a profile may set.
const KEYS: [&str; 6] = ["executions", "seconds", "scale", "seed", "workers", "traces"];

/// The number that the chosen profile gives a variable, if it does.
pub(crate) fn number(variable: &str) -> Result<Option<u64>, String> {
    let chosen = std::env::var("EVERHOLD_PROFILE").unwrap_or_default();
    if chosen.is_empty() {
        return Ok(None);
    }
    let key = variable.trim_start_matches("EVERHOLD_").to_ascii_lowercase();
    let file = find().ok_or_else(|| {
        format!("EVERHOLD_PROFILE={chosen}, but there is no {FILE} in this folder or above it")
    })?;
    let text = std::fs::read_to_string(&file)
        .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    read(&text, &chosen, &key).map_err(|problem| format!("{}:{problem}", file.display()))
}

fn find() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join(FILE)).find(|file: &PathBuf| Path::is_file(file))
}

/// The number of a key in a profile; an error begins with the number of its line.
fn read(text: &str, profile: &str, key: &str) -> Result<Option<u64>, String> {
    let (mut table, mut seen, mut found) = (String::new(), Vec::new(), None);
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = name.trim().to_owned();
            seen.extend(table.strip_prefix("profile.").map(str::to_owned));
        } else if table == format!("profile.{profile}") && !line.is_empty() {
            let (name, value) = entry(line).map_err(|problem| format!("{}: {problem}", at + 1))?;
            if name == key {
                found = Some(value);
            }
        }
    }
    if seen.iter().any(|name| name == profile) {
        return Ok(found);
    }
    Err(match seen.is_empty() {
        true => format!("1: there is no [profile.{profile}]"),
        false => format!("1: there is no [profile.{profile}]; there is {}", seen.join(", ")),
    })
}

/// A line `key = 1_000`.
fn entry(line: &str) -> Result<(&str, u64), String> {
    let known = || KEYS.join(", ");
    let (name, value) =
        line.split_once('=').ok_or_else(|| format!("`{line}` is no `key = number`"))?;
    let name = name.trim();
    if !KEYS.contains(&name) {
        return Err(format!("a profile has no `{name}`; it may set {}", known()));
    }
    let number = value.trim().replace('_', "").parse();
    let number = number.map_err(|_| format!("{name} = {} is not a whole number", value.trim()))?;
    Ok((name, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# budgets
[watch]
listen = \"127.0.0.1:7117\"

[profile.ci]
seconds = 20   # a minute is too long

[profile.nightly]
executions = 1_000_000
seed = x
";

    #[test]
    fn a_profile_gives_numbers_and_names_what_is_wrong() {
        let check = |profile: &str, key: &str, expected: Result<Option<u64>, &str>| {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(read(FILE, profile, key), expected, "{profile} {key}");
        };
        check("ci", "seconds", Ok(Some(20)));
        check("ci", "scale", Ok(None));
        check("nightly", "executions", Err("10: seed = x is not a whole number"));
        check("dev", "seed", Err("1: there is no [profile.dev]; there is ci, nightly"));
        assert_eq!(
            entry("second = 1").unwrap_err().split(';').next(),
            Some("a profile has no `second`")
        );
        assert!(entry("seconds").is_err());
    }
}
