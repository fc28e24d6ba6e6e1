//! Numbers as text for people.

/// A whole number with commas between its thousands.
///
/// ```
/// use everhold_trace::text::thousands;
/// assert_eq!(thousands(999), "999");
/// assert_eq!(thousands(1_234_567), "1,234,567");
/// ```
#[must_use]
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (52_745, "52,745"),
            (2_744_706, "2,744,706"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ];
        for (number, text) in cases {
            assert_eq!(thousands(number), text);
        }
    }
}
