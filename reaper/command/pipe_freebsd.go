package command

// enlarge has nothing to do: the kernel enlarges a pipe by itself when much is written to it (pipe(2)).
func enlarge(int) {}
