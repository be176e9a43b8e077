"""Inner loops over rows: compiled ones, and beside each a plain NumPy reference implementation.

A compiled loop is imported only when it is called, so that nobody pays for the compiler who does
not use it, and the reference serves wherever the compiler is absent.

| module             | holds                                                                |
|--------------------|----------------------------------------------------------------------|
| compiler           | when and how a loop is compiled: read it first                       |
| slope              | the derivative of a scalar loss, as loops call it                    |
| rows               | rows and vectors as loops read them; sparse rows as three arrays     |
| sums, clipping     | sums of clipped gradients; coefficients within exact bounds          |
| pairwise           | sums of rows in leaves, and what rounding can do to them             |
| rescale            | rows measured and rescaled, for the bounds                           |
| sgd, sparse        | sequential passes of gradient steps, over dense and over sparse rows |
| normals            | random words as normals; normals rounded to a grid                   |
"""
