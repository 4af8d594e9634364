#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assent_fuzz::condition::check(bytes));
