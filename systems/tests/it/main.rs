//! Every case study finds its bug and is silent when the bug is fixed.

mod storage;
