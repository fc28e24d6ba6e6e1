//! The characters of pictures.

/// A set of characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// Box drawing and arrows, without characters that some terminals draw two columns wide.
    #[default]
    Unicode,
    /// Seven-bit ASCII.
    Ascii,
}

impl Charset {
    pub(super) fn glyphs(self) -> &'static Glyphs {
        match self {
            Charset::Unicode => &UNICODE,
            Charset::Ascii => &ASCII,
        }
    }
}

pub(super) struct Glyphs {
    /// A node that is up, down after a crash, cut off by a partition.
    pub(super) up: char,
    pub(super) down: char,
    pub(super) apart: char,
    /// An event at a node.
    pub(super) event: char,
    pub(super) crash: char,
    pub(super) restart: char,
    pub(super) stop: char,
    /// The beginning and the end of a partition.
    pub(super) part: char,
    pub(super) heal: char,
    /// A message that leaves to the right and to the left, is on its way, crosses another lane,
    /// arrives.
    pub(super) leaves: [char; 2],
    pub(super) across: char,
    pub(super) over: char,
    pub(super) over_apart: char,
    pub(super) arrives: [char; 2],
    /// A message that a fault strikes, and the mark of the fault.
    pub(super) dashed: char,
    pub(super) lost: &'static str,
    pub(super) twice: &'static str,
    pub(super) delayed: &'static str,
    /// Steps left out: at the number, and in the lanes.
    pub(super) elided: &'static str,
    pub(super) lane_elided: char,
    /// The round of an execution that never ends: its first, inner and last row.
    pub(super) bracket: [char; 3],
    pub(super) round: &'static str,
    /// The failure hangs under its event.
    pub(super) hook: &'static str,
    pub(super) failed: char,
    /// Signs within texts.
    pub(super) becomes: &'static str,
    pub(super) from: &'static str,
    pub(super) gone: &'static str,
    pub(super) separator: &'static str,
    pub(super) ellipsis: &'static str,
}

const UNICODE: Glyphs = Glyphs {
    up: '│',
    down: '┊',
    apart: '║',
    event: '●',
    crash: '╳',
    restart: '○',
    stop: '■',
    part: '╥',
    heal: '╨',
    leaves: ['├', '┤'],
    across: '─',
    over: '┼',
    over_apart: '╫',
    arrives: ['▶', '◀'],
    dashed: '╌',
    lost: "✗",
    twice: "×2",
    delayed: "…",
    elided: "⋮",
    lane_elided: '┊',
    bracket: ['╭', '│', '╰'],
    round: "↺",
    hook: "╰─ ",
    failed: '✗',
    becomes: "→",
    from: "←",
    gone: "−",
    separator: " · ",
    ellipsis: "…",
};

const ASCII: Glyphs = Glyphs {
    up: '|',
    down: ':',
    apart: '#',
    event: '*',
    crash: 'X',
    restart: 'o',
    stop: 'X',
    part: '#',
    heal: '#',
    leaves: ['|', '|'],
    across: '-',
    over: '+',
    over_apart: '#',
    arrives: ['>', '<'],
    dashed: '.',
    lost: "x",
    twice: "x2",
    delayed: "..",
    elided: ":",
    lane_elided: ':',
    bracket: ['/', '|', '\\'],
    round: "@",
    hook: "`- ",
    failed: 'x',
    becomes: "->",
    from: "<-",
    gone: "-",
    separator: "; ",
    ellipsis: "..",
};
