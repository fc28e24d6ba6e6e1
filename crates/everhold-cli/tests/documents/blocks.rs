//! The fenced blocks of a document.

/// A block.
pub(crate) struct Block {
    /// The text after the opening fence.
    pub(crate) info: String,
    /// The content.
    pub(crate) text: String,
    /// The number of its first line, from 1.
    pub(crate) line: usize,
}

pub(crate) fn blocks(document: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in document.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(info), None) => {
                let (info, text) = (info.to_owned(), String::new());
                open = Some(Block { info, text, line: at + 1 });
            }
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block does not end");
    found
}

#[test]
fn blocks_are_found() {
    let found = blocks("a\n```rust\nlet x;\n```\n\n```prop r.prop\nalways\n```\n");
    let found: Vec<_> = found.iter().map(|b| (&*b.info, &*b.text, b.line)).collect();
    assert_eq!(found, [("rust", "let x;\n", 2), ("prop r.prop", "always\n", 6)]);
}
