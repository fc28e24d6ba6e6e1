//! Colours for verdicts and false values.

use std::io::{self, IsTerminal};

use clap::builder::styling::{AnsiColor, Style};
use everhold_property::Verdict;

use crate::args::Color;

/// Whether standard output is coloured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    colored: bool,
}

impl Paint {
    pub(crate) fn new(color: Color) -> Paint {
        let colored = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                !refused && io::stdout().is_terminal()
            }
        };
        Paint { colored }
    }

    pub(crate) fn verdict(self, verdict: Verdict, text: &str) -> String {
        let color = match verdict {
            Verdict::Holds => AnsiColor::Green,
            Verdict::Violated => AnsiColor::Red,
            Verdict::Unknown => AnsiColor::Yellow,
        };
        self.style(Style::new().bold().fg_color(Some(color.into())), text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.style(Style::new().bold(), text)
    }

    fn style(self, style: Style, text: &str) -> String {
        if self.colored { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}
