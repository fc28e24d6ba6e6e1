//! How likely each option of a choice is.

/// How likely each option of a [weighted choice](crate::Cx::choose_weighted) is, in proportion to the
/// others. An option with the weight 0 is impossible.
///
/// ```
/// use everhold_node::Weights;
/// let weights = Weights::new("size", &[3, 0, 1]);
/// let tickets = [0, 1, 2, 3].map(|ticket| weights.option_with(ticket));
/// assert_eq!(tickets, [0, 0, 0, 2]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    each: &'a [u32],
    total: u32,
}

impl<'a> Weights<'a> {
    /// The weights of the choice with a label.
    ///
    /// # Panics
    ///
    /// If no option has a weight above 0, or if the weights add up to 2^32 or more.
    #[must_use]
    pub fn new(label: &str, each: &'a [u32]) -> Self {
        let total: u64 = each.iter().map(|weight| u64::from(*weight)).sum();
        assert!(total > 0, "choose_weighted(\"{label}\") needs an option with a weight above 0");
        let total = u32::try_from(total).unwrap_or_else(|_| {
            panic!("choose_weighted(\"{label}\"): the weights add up to {total}; use smaller ones")
        });
        Weights { each, total }
    }

    /// The number of options, impossible ones included.
    #[must_use]
    pub fn options(&self) -> u32 {
        u32::try_from(self.each.len()).expect("a choice has fewer than 2^32 options")
    }

    /// The sum of the weights.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The possible options, in order.
    pub fn possible(&self) -> impl Iterator<Item = u32> {
        (0..).zip(self.each).filter(|(_, weight)| **weight > 0).map(|(option, _)| option)
    }

    /// The option that is possible if there is only one.
    #[must_use]
    pub fn only(&self) -> Option<u32> {
        let mut possible = self.possible();
        possible.next().filter(|_| possible.next().is_none())
    }

    /// The option that wins with a ticket below the [total](Self::total): each option has as many
    /// tickets as its weight.
    ///
    /// # Panics
    ///
    /// If there is no such ticket.
    #[must_use]
    pub fn option_with(&self, ticket: u32) -> u32 {
        let mut sold = 0;
        let wins = |option: &u32| {
            sold += self.each[*option as usize];
            ticket < sold
        };
        self.possible().find(wins).expect("a ticket is below the total of the weights")
    }

    /// The last possible option up to this one, or else the first possible option.
    #[must_use]
    pub fn nearest(&self, option: u32) -> u32 {
        let up_to = self.possible().take_while(|possible| *possible <= option).last();
        up_to.or_else(|| self.possible().next()).expect("some option is possible")
    }
}
