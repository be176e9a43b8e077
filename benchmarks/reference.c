/* The sequential pass written plainly in C, to be compiled with
 *     -O3 -march=native -ffast-math -funroll-loops
 * as the yardstick of the compiled loop: logistic loss, one step size, ball about the origin.
 */
#include <math.h>
#include <stdint.h>

void sgd_pass(const double *rows, const double *labels, int64_t n, int64_t d, double step,
              double radius, double *restrict weights, double *restrict total) {
  for (int64_t i = 0; i < n; i++) {
    const double *x = rows + i * d;
    double margin = 0.0, square = 0.0;
    for (int64_t j = 0; j < d; j++) {
      total[j] += weights[j];
      margin += weights[j] * x[j];
    }
    const double c = -step * labels[i] / (1.0 + exp(labels[i] * margin));
    for (int64_t j = 0; j < d; j++) {
      const double w = weights[j] - c * x[j];
      weights[j] = w;
      square += w * w;
    }
    if (square > radius * radius) {
      const double scale = radius / sqrt(square);
      for (int64_t j = 0; j < d; j++) weights[j] *= scale;
    }
  }
}

/* The same with the average in a loop of its own, which is easier on some vectorisers. */
void sgd_pass_apart(const double *rows, const double *labels, int64_t n, int64_t d, double step,
                    double radius, double *restrict weights, double *restrict total) {
  for (int64_t i = 0; i < n; i++) {
    const double *x = rows + i * d;
    double margin = 0.0, square = 0.0;
    for (int64_t j = 0; j < d; j++) total[j] += weights[j];
    for (int64_t j = 0; j < d; j++) margin += weights[j] * x[j];
    const double c = -step * labels[i] / (1.0 + exp(labels[i] * margin));
    for (int64_t j = 0; j < d; j++) {
      const double w = weights[j] - c * x[j];
      weights[j] = w;
      square += w * w;
    }
    if (square > radius * radius) {
      const double scale = radius / sqrt(square);
      for (int64_t j = 0; j < d; j++) weights[j] *= scale;
    }
  }
}
