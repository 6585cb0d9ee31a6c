package job

// Handles returns how many job handles are held, without the sweep that every other call does first.
func (m *Manager) Handles() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.jobs)
}
