// What cppcheck reads before each file: macros of system headers, which it does not read, where
// they stand for a statement or a declaration.
#define json_array_foreach(array, i, value)                                                        \
    for (i = 0; i < json_array_size(array) && (value = json_array_get(array, i)); i++)
#define json_object_foreach(object, key, value)                                                    \
    for (key = json_object_key(object, NULL); key && (value = json_object_get(object, key));       \
         key = json_object_key(object, key))
#define json_object_foreach_safe(object, n, key, value)                                            \
    for (key = json_object_key(object, NULL), n = json_object_key(object, key);                    \
         key && (value = json_object_get(object, key)); key = n, n = json_object_key(object, n))
#define TAILQ_HEAD(name, type)                                                                     \
    struct name {                                                                                  \
        struct type *tqh_first, **tqh_last;                                                        \
    }
#define LIST_HEAD(name, type)                                                                      \
    struct name {                                                                                  \
        struct type *lh_first;                                                                     \
    }
#define TAILQ_FOREACH(var, head, field)                                                            \
    for (var = TAILQ_FIRST(head); var; var = TAILQ_NEXT(var, field))
#define LIST_FOREACH(var, head, field)                                                             \
    for (var = LIST_FIRST(head); var; var = LIST_NEXT(var, field))
