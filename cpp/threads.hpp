// Blocks of work shared out to threads, so that the result is the same whatever their number.
//
// Threads are started for a call and end with it: none is left behind for a process that is forked
// later to miss, and there is nothing to set up or to shut down. Starting one takes some 30 us, so
// whoever calls asks for few where there is little to do (`threads_for`).
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace annealed {

// Multiplications that are worth a thread of their own: about a quarter of a millisecond.
constexpr double worth_a_thread = 1 << 20;

inline int threads_for(double multiplications, int allowed) {
    const double worth = multiplications / worth_a_thread;
    return worth < 2 ? 1 : static_cast<int>(std::min<double>(worth, std::max(allowed, 1)));
}

// Blocks 0..blocks-1, each taken by the next thread that is free. `make` gives every thread a worker
// of its own, with
//     void work(block)     several blocks at once, in any order
//     void settle(block)   one block after the other, in order: sums over all rows belong here
// The second is asked for only where Worker::in_order says so.
template <class Make>
void in_threads(std::int64_t blocks, int threads, Make make) {
    using Worker = decltype(make());
    std::atomic<std::int64_t> next{0};
    std::mutex guard;
    std::condition_variable turn;
    std::int64_t settled = 0;
    std::exception_ptr error;
    const auto run = [&] {
        try {
            Worker worker = make();
            for (std::int64_t block; (block = next++) < blocks;) {
                worker.work(block);
                if constexpr (Worker::in_order) {
                    std::unique_lock<std::mutex> lock(guard);
                    turn.wait(lock, [&] { return error || settled == block; });
                    if (error) return;
                    worker.settle(block);
                    ++settled;
                    turn.notify_all();
                }
            }
        } catch (...) {
            const std::lock_guard<std::mutex> lock(guard);
            if (!error) error = std::current_exception();
            next = blocks;
            turn.notify_all();
        }
    };
    std::vector<std::thread> others;
    try {
        for (std::int64_t n = std::min<std::int64_t>(threads, blocks); n > 1; --n)
            others.emplace_back(run);
    } catch (const std::system_error&) {  // the system has no more of them: those there are will do
    }
    run();
    for (std::thread& other : others) other.join();
    if (error) std::rethrow_exception(error);
}

}  // namespace annealed
