"""What the columns of a table mean, declared before it is read.

| module  | holds                                                                          |
|---------|--------------------------------------------------------------------------------|
| schema  | `Schema` and its kinds of columns, as a JSON file says them: read it first     |
| columns | columns of any frame as numbers, text or Arrow arrays, refused by type alone   |
| encoder | `TableEncoder`: rows of numbers from columns, by public facts alone            |
| made_up | columns made up from a schema alone, for rehearsals                            |
| draft   | `draft_schema`: a first schema from public rows; how a file differs from one   |
| text    | text as hashed n-grams                                                         |
| guess   | how numbers in text are written, for drafts                                    |
"""
