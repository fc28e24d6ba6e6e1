//! Printing and parsing are inverse to one another.

use everhold_property::{parse, print, render_all};

use crate::random::{Random, property};

/// 20,000 trees of depth 5: each pair of operators meets, on either side, in about 300 of them.
#[test]
fn what_is_printed_is_read_back() {
    for seed in 0..20_000 {
        let original = property(&mut Random::new(seed));
        let text = print(&original);
        let parsed = parse(&text);
        let complaints = render_all(&parsed.diagnostics, "printed", &text);
        assert!(complaints.is_empty(), "seed {seed}\n{text}\n{complaints}");
        assert_eq!(parsed.properties, [original], "seed {seed}\n{text}");
        assert_eq!(print(&parsed.properties[0]), text, "seed {seed}");
    }
}
