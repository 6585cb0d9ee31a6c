package procfs

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Childless reports whether the kernel lists no child of any of the process's threads (proc_pid_task(5), children). A list
// read while children come and go may lack one, but it is never empty while there is one: the kernel reads it under the lock
// that fork and exit take (fs/proc/array.c get_children_pid). Of a pid namespace's process 1 it means that the namespace has
// no other process, because what loses its parent falls to process 1.
func Childless(pid int) (bool, error) {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return false, err
	}
	slices.Reverse(tasks) // the first thread last: what loses its parent meanwhile falls to it
	for _, task := range tasks {
		children, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "task", task.Name(), "children"))
		if err != nil || len(children) > 0 {
			return false, err
		}
	}
	return len(tasks) > 0, nil
}
