//! Both sides of a connection, with valid and invalid certificates.

mod certificates;
mod pairs;
mod wrong_files;
