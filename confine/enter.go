package confine

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
)

// What every worker has: its host name, and its whole environment.
const (
	workerHost = "worker"
	workerEnv  = "PATH=/usr/bin:/bin"
)

// Enter is the beginning of a worker's life: it reads its orders from in, puts every layer around the calling process, for all of
// its threads, and says so in one line to out. After an error nothing may be done but to end.
func Enter(in *bufio.Reader, out io.Writer) ([]Attempt, error) {
	o, err := readOrders(in)
	if err != nil {
		return nil, err
	}
	var word Word
	word.Attempts, err = enter(o)
	if err != nil {
		word.Error = err.Error()
	}
	line, jsonErr := json.Marshal(word)
	if jsonErr == nil {
		_, jsonErr = out.Write(append(line, '\n'))
	}
	return word.Attempts, errors.Join(err, jsonErr)
}
