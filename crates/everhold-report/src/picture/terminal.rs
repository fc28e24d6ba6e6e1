//! The width and the characters that the environment of a process asks for.

use std::borrow::Cow;

use super::{Charset, Paper};

/// The narrowest and the widest terminal that is followed: below, nothing can be drawn; above,
/// lines become hard to read.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=240;

impl Paper {
    /// The paper for text that a person reads on the terminal of this process: as wide as
    /// `COLUMNS` says, 100 columns where it says nothing, and with the [characters of the
    /// locale](Charset::of_environment).
    #[must_use]
    pub fn of_environment() -> Self {
        let columns = std::env::var("COLUMNS").ok();
        let width = columns.and_then(|columns| columns.trim().parse().ok());
        Paper { charset: Charset::of_environment(), ..Paper::default() }.with_width(width)
    }

    /// The same paper with another width, brought into the range that can be drawn; unchanged if
    /// the width is not known.
    #[must_use]
    pub fn with_width(self, width: Option<usize>) -> Self {
        let width_max = width.map(|width| width.clamp(*WIDTHS.start(), *WIDTHS.end()));
        Paper { width_max: width_max.unwrap_or(self.width_max), ..self }
    }
}

impl Charset {
    /// The characters of the locale: ASCII if `LC_ALL`, `LC_CTYPE` or `LANG` (the first that is
    /// set) names an encoding without Unicode, or the locale `C` or `POSIX`. Without any of them
    /// the terminal is expected to show Unicode, as the consoles of most build services do.
    #[must_use]
    pub fn of_environment() -> Self {
        let set = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
        locale.map_or(Charset::Unicode, |locale| Charset::of_locale(&locale))
    }

    fn of_locale(locale: &str) -> Self {
        let lower = locale.to_ascii_lowercase();
        let encoding =
            lower.split_once('.').map(|(_, rest)| rest.split('@').next().unwrap_or(rest));
        let has_unicode = match encoding {
            Some(encoding) => encoding.replace('-', "") == "utf8",
            None => !matches!(lower.as_str(), "c" | "posix"),
        };
        if has_unicode { Charset::Unicode } else { Charset::Ascii }
    }

    /// A text in these characters: the signs that reports use become ASCII where that is asked for.
    /// Text of users is not changed otherwise.
    #[must_use]
    pub fn text(self, text: &str) -> Cow<'_, str> {
        if self == Charset::Unicode || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(text.chars().map(Self::in_ascii).collect())
    }

    fn in_ascii(sign: char) -> Cow<'static, str> {
        let plain = match sign {
            '✗' => "x",
            '✓' => "ok",
            '·' | '•' => "-",
            '→' => "->",
            '←' => "<-",
            '×' => "x",
            '…' => "...",
            '−' | '–' | '—' => "-",
            '≤' => "<=",
            '≥' => ">=",
            '≠' => "!=",
            '│' => "|",
            '─' => "-",
            '█' => "#",
            other => return Cow::Owned(other.to_string()),
        };
        Cow::Borrowed(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides_the_characters() {
        let check = |locale: &str, expected: Charset| {
            assert_eq!(Charset::of_locale(locale), expected, "{locale}");
        };
        check("en_US.UTF-8", Charset::Unicode);
        check("de_DE.utf8@euro", Charset::Unicode);
        check("C.UTF-8", Charset::Unicode);
        check("en_US", Charset::Unicode);
        check("C", Charset::Ascii);
        check("POSIX", Charset::Ascii);
        check("de_DE.ISO-8859-1", Charset::Ascii);
    }

    #[test]
    fn widths_stay_within_what_can_be_drawn() {
        let check = |width: Option<usize>, expected: usize| {
            assert_eq!(Paper::default().with_width(width).width_max, expected, "{width:?}");
        };
        check(None, 100);
        check(Some(80), 80);
        check(Some(200), 200);
        check(Some(3), 40);
        check(Some(100_000), 240);
    }

    #[test]
    fn signs_of_reports_have_a_plain_form_and_names_stay() {
        assert_eq!(Charset::Ascii.text("✗ größe 1 → 2 · 3 × 4"), "x größe 1 -> 2 - 3 x 4");
        assert_eq!(Charset::Unicode.text("✗ 1 → 2"), "✗ 1 → 2");
    }
}
