#pragma once
// Predicts the progress of a job that ends when converged (ONES, SC'21, section 3.2.1). A job's progress is the
// processed part of all samples. Progress is assumed to be distributed as Beta(alpha, beta). Alpha is the number of
// processed epochs; beta, the epochs to come, is a linear function of the job's figures; both are at least 1. The
// function's parameters make the likelihood of finished jobs' logs greatest.
//
// The paper ends here. The paper's model predicts a job of forty epochs as if forty independent facts were known about
// the job, and a single job unlike the jobs before makes the likelihood of all vanish. Here alpha and beta are
// multiplied by a confidence. And where jobs end alike, whatever their figures say, a linear function of few jobs is
// noise: then the jobs' mean end takes its place. Both are chosen as would have predicted each finished job best by the
// rest.
//
// Pure: the same logs give the same model.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace estrain::scheduling {

struct Beta {
  double alpha = 1, beta = 1;
  double mean() const { return alpha / (alpha + beta); }
  double log_density(double progress) const;  // of 0 < progress < 1
};

class ProgressModel {
 public:
  // A job's figures at the end of an epoch.
  struct Signs {
    double epoch_size = 1;  // samples
    double initial_loss = 0;
    double processed = 0;         // samples
    double loss_improvement = 0;  // 1 - loss / initial loss
    double accuracy = 0;          // of validation
  };
  struct Logged {
    int64_t job = 0;
    Signs signs;
    double progress = 0;  // 0 < progress < 1, known when the job has ended
  };

  // Without logs to learn from, as many epochs are to come as are done.
  ProgressModel() = default;
  static ProgressModel fit(const std::vector<Logged>& logs);

  Beta predict(const Signs& signs) const;
  // Returns the expectation itself. Negative where a job goes on for longer than the jobs that were learnt from.
  double epochs_to_come(const Signs& signs) const;
  double confidence() const { return confidence_; }
  bool ends_alike() const { return ends_alike_; }

 private:
  static constexpr size_t kFeatures = 6;  // a constant and the five signs, each of mean 0 and deviation 1
  using Vector = std::array<double, kFeatures>;

  // Of one confidence; by the mean end, or by the linear function.
  static ProgressModel fit_with(const std::vector<Logged>& logs, double confidence, bool alike);
  static double likelihood_of_each_by_others(const std::vector<Logged>& logs, double confidence, bool alike);
  void fit_linear(const std::vector<Logged>& logs);
  Beta beta_of(const Signs& signs, double epochs_to_come) const;
  Vector features(const Signs& signs) const;
  double linear(const Vector& x) const;

  bool is_fitted_ = false, ends_alike_ = false;
  double confidence_ = 1;
  double end_ = 0;  // samples, where jobs end alike
  Vector mean_{}, deviation_{}, weights_{};
};

// Returns the Beta distribution of greatest likelihood without knowledge of a job: to compare with.
Beta constant_beta(const std::vector<ProgressModel::Logged>& logs);

}  // namespace estrain::scheduling
