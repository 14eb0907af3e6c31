// Threads for many short rounds of work within one call, a tenth of a millisecond each: too short to
// start threads for every round. What they compute does not depend on their number.
//
// Like those of threads.hpp they end with the call. They start with the first round that is worth
// more than one; between rounds they spin for as long as the work between two rounds usually takes,
// and then sleep, so that whoever needs their core gets it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#include "tiles.hpp"

namespace annealed {

class ThreadTeam {
public:
    explicit ThreadTeam(int allowed) : allowed_(allowed) {}
    ThreadTeam(const ThreadTeam&) = delete;
    ~ThreadTeam() {
        {
            const std::lock_guard<std::mutex> lock(guard_);
            ended_ = true;
        }
        wake_.notify_all();
        for (std::thread& other : others_) other.join();
    }
    int allowed() const { return allowed_; }

    // Calls with 0..pieces-1, in any order and several at once; the calling thread does its part.
    // `work` must not throw.
    void round(int pieces, const std::function<void(int)>& work) {
        if (allowed_ > 1 && others_.empty()) start();
        if (others_.empty() || pieces < 2) {
            for (int piece = 0; piece < pieces; ++piece) work(piece);
            return;
        }
        work_ = &work;
        pieces_ = pieces;
        next_ = 0;
        finished_ = 0;
        open_ = true;
        {
            const std::lock_guard<std::mutex> lock(guard_);
            ++rounds_;
        }
        if (asleep_ > 0) wake_.notify_all();
        take_part();
        // Whoever is late finds it closed and has nothing to do with it any more.
        wait_for([&] { return finished_ >= pieces; });
        open_ = false;
        wait_for([&] { return within_ == 0; });
    }

private:
    static constexpr int spins = 1 << 13;  // of some 20 ns each
    const int allowed_;
    std::vector<std::thread> others_;
    std::mutex guard_;
    std::condition_variable wake_;
    const std::function<void(int)>* work_ = nullptr;
    int pieces_ = 0;
    std::atomic<int> next_{0}, finished_{0}, within_{0}, asleep_{0};
    std::atomic<bool> open_{false}, ended_{false};
    std::atomic<std::int64_t> rounds_{0};

    static void pause() {
#if defined(__x86_64__) || defined(_M_X64)
        _mm_pause();
#else
        std::this_thread::yield();
#endif
    }

    // Others are at the end of their pieces; one that has lost its core needs it back.
    template <class Condition>
    static void wait_for(Condition condition) {
        for (int n = 0; !condition(); ++n) n < spins ? pause() : std::this_thread::yield();
    }

    void start() {
        try {
            for (int n = 1; n < allowed_; ++n) others_.emplace_back([this] { follow(); });
        } catch (const std::system_error&) {  // the system has no more: those there are will do
        }
    }

    void take_part() {
        for (int piece; (piece = next_++) < pieces_; ++finished_) (*work_)(piece);
    }

    void follow() {
        const FlushDenormals flush;
        std::int64_t known = 0;
        while (true) {
            for (int n = 0; n < spins && rounds_ == known && !ended_; ++n) pause();
            if (rounds_ == known && !ended_) {
                std::unique_lock<std::mutex> lock(guard_);
                ++asleep_;
                wake_.wait(lock, [&] { return rounds_ != known || ended_; });
                --asleep_;
            }
            if (ended_) return;
            known = rounds_;
            ++within_;
            if (open_) take_part();
            --within_;
        }
    }
};

}  // namespace annealed
