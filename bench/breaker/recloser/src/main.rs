// A circuit breaker for Rust on the way of a call, for breaker_bench.sh: nanoseconds of processor time an
// operation and thread, the least of some rounds.
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use recloser::{Error, Recloser};

const OPERATIONS: u64 = 1_000_000;
const ROUNDS: usize = 9;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

fn thread_time() -> f64 {
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.seconds as f64 * 1e9 + now.nanoseconds as f64
}

fn measure(name: &str, breaker: Recloser, threads: usize, operation: fn(&Recloser)) {
    let breaker = Arc::new(breaker);
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let gate = Arc::new(Barrier::new(threads));
        let running: Vec<_> = (0..threads)
            .map(|_| {
                let (gate, breaker) = (gate.clone(), breaker.clone());
                std::thread::spawn(move || {
                    gate.wait();
                    let start = thread_time();
                    for _ in 0..OPERATIONS {
                        operation(black_box(&breaker));
                    }
                    (thread_time() - start) / OPERATIONS as f64
                })
            })
            .collect();
        let took: f64 = running.into_iter().map(|thread| thread.join().unwrap()).sum();
        best = best.min(took / threads as f64);
    }
    println!("{name:<50} {best:8.2}");
}

fn last_calls() -> Recloser {
    Recloser::custom().error_rate(0.5).closed_len(100).half_open_len(10).open_wait(Duration::from_secs(3600)).build()
}

fn good_call(breaker: &Recloser) {
    let _ = black_box(breaker.call(|| Ok::<(), ()>(())));
}

fn main() {
    measure("recloser: a good call, last 100", last_calls(), 1, good_call);
    measure("recloser: the same, 2 threads on one", last_calls(), 2, good_call);
    let open = last_calls();
    while !matches!(open.call(|| Err::<(), ()>(())), Err(Error::Rejected)) {}
    measure("recloser: open, rejected", open, 1, |breaker| {
        if !matches!(black_box(breaker.call(|| Ok::<(), ()>(()))), Err(Error::Rejected)) {
            panic!("it is open");
        }
    });
}
