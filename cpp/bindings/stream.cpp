// Labelled samples of a stream, one at a time (stream.hpp).
#include "../stream.hpp"

#include <utility>

#include "module.hpp"
#include "one_sample.hpp"

namespace annealed {

// What is told of a sample that was learnt, as bits; `refused`: it is out of the ordinary, and nothing
// was learnt.
constexpr int refused = -1, told_wrong = 1, level_ended = 2;

// A stream with all that it refers to.
struct OwningStream {
    Stream stream;
    SampleFormat format;
    int d;
    nb::object parts;

    int learn(nb::handle x, int y, double w, std::size_t at) {
        require(y >= 0 && y < stream.classes(), "a sample is of a class that does not exist");
        const bool concerns = !stream.tested.empty() || !stream.kept.empty();
        if (concerns && !(stream.factor[static_cast<std::size_t>(y)] > 0)) return refused;
        require(!stream.classes_met || at < stream.room, "a race has no room for another sample");
        const double* sample = read_sample(x, format, d);
        if (!sample || !is_weight(w)) return refused;
        const FlushDenormals flush;
        const bool wrong = stream.learn({sample, 1, false}, y, w, at);
        return (wrong ? told_wrong : 0) |
               (stream.levels[static_cast<std::size_t>(y)]->done ? level_ended : 0);
    }
    bool answer(nb::handle x) {
        const double* sample = read_sample(x, format, d);
        if (!sample) return false;
        const FlushDenormals flush;
        return stream.answer({sample, 1, false});
    }
};

using Answers = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

static void add_tested(OwningStream& self, const nb::sequence& runners, const Vector& shares,
                       const nb::sequence& answers) {
    const char* misfit = "the runners of a stream do not fit together";
    const std::size_t n = nb::len(runners), classes = self.stream.levels.size();
    require(shares.shape(0) == n && (nb::len(answers) == n || nb::len(answers) == 0), misfit);
    for (std::size_t k = 0; k < n; ++k) {
        Tested each{nb::cast<Runner*>(runners[k]), shares.data()[k], nullptr};
        if (nb::len(answers)) {
            const auto into = nb::cast<Answers>(answers[k], false);
            require(into.shape(0) == self.stream.room && into.shape(1) == classes, misfit);
            each.answers = into.data();
        }
        self.stream.tested.push_back(each);
    }
}

void define_stream(nb::module_& m) {
    nb::class_<Runner>(m, "Runner");
    nb::class_<OwningStream>(m, "Stream")
        .def("__init__",
             [](OwningStream* self, const SampleFormat& format, nb::sequence levels, Vector before,
                double T, nb::sequence tested, Vector shares, nb::sequence kept, Vector factor,
                nb::sequence answers,
                nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> classes,
                Statistic counted) {
                 const char* misfit = "the parts of a stream do not fit together";
                 OwningStream made{
                     {}, format, 0,
                     nb::make_tuple(levels, tested, kept, answers, nb::cast(classes),
                                    nb::cast(counted))};
                 Stream& stream = made.stream;
                 if (nb::len(answers)) {
                     stream.classes_met = classes.data();
                     stream.counted = counted.data();
                     stream.room = classes.shape(0);
                 }
                 for (nb::handle level : levels) stream.levels.push_back(nb::cast<LevelBase*>(level));
                 require(!stream.levels.empty(), "there is no level to learn");
                 made.d = stream.levels[0]->features();
                 require_length(before, stream.levels.size(), misfit);
                 require(counted.shape(0) == classes.shape(0), misfit);
                 stream.before.assign(before.data(), before.data() + before.shape(0));
                 stream.T = T;
                 add_tested(made, tested, shares, answers);
                 for (nb::handle each : kept) stream.kept.push_back(nb::cast<Runner*>(each));
                 std::vector<Runner*> everyone = stream.kept;
                 for (const Tested& each : stream.tested) everyone.push_back(each.runner);
                 require(everyone.empty() || factor.shape(0) == stream.levels.size(), misfit);
                 stream.factor.assign(factor.data(), factor.data() + factor.shape(0));
                 for (const Runner* each : everyone)
                     require(each->features() == made.d && each->n_classes() == stream.classes(),
                             misfit);
                 for (const LevelBase* each : stream.levels)
                     require(each->features() == made.d, misfit);
                 new (self) OwningStream(std::move(made));
             },
             "format"_a, "levels"_a, "before"_a, "T"_a, "tested"_a, "shares"_a, "kept"_a,
             "factor"_a, "answers"_a, "classes"_a, "counted"_a)
        .def("learn", &OwningStream::learn, "x"_a.none(), "y"_a, "w"_a, "at"_a,
             "Learn one sample: 1 if its class was told wrong before, plus 2 if the level of its "
             "class has ended with it; -1, and nothing learnt, where it is out of the ordinary.")
        .def("learn_rows",
             [](OwningStream& self, const Anything& X, const Classes& classes,
                const std::optional<Vector>& weights, std::int64_t begin, std::int64_t end,
                std::size_t at) {
                 const Samples samples = rows_to_learn(X, self.d, {}, classes, weights, begin, end);
                 double* wrong;
                 auto array = new_array<double>({static_cast<std::size_t>(end - begin)}, wrong);
                 std::int64_t stop;
                 {
                     nb::gil_scoped_release unlocked;
                     stop = learn_stream(self.stream, samples, begin, end, at, wrong);
                 }
                 return nb::make_tuple(stop, array);
             },
             "X"_a, "classes"_a, "weights"_a.none(), "begin"_a, "end"_a, "at"_a,
             "Learn rows until one completes its class's level: how far it came, and whether each "
             "was told wrong (nan: of weight 0).")
        .def("answer",
             [](OwningStream& self, nb::handle x) -> nb::object {
                 if (!self.answer(x)) return nb::none();
                 const Doubles& posterior = self.stream.posterior();
                 return nb::cast(copy_out(posterior.data(), posterior.size()));
             },
             "x"_a.none(), "p(c|x) of one sample; None where it is out of the ordinary.")
        .def("likeliest",
             [](OwningStream& self, nb::handle x) {
                 return self.answer(x) ? self.stream.likeliest() : refused;
             },
             "x"_a.none(), "The likeliest class of one sample; -1 where it is out of the ordinary.");
}

}  // namespace annealed
