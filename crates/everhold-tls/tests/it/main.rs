//! Both sides of a connection, with certificates that are right and wrong.

mod certificates;
mod pairs;
mod wrong_files;
