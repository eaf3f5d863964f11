// What the server sends: live as server-sent events, the past by single requests.
// EventSource cannot show a token, so the events are read with fetch.

const AGAIN = [500, 1000, 2000, 5000];
const SILENCE = 8000; // The server says something every second.
const PATIENCE = 30000; // For what an order does.

export class Feed {
  #token = null;
  #reading = null;
  #tries = 0;
  #ordered = Promise.resolve();

  constructor({ onMessage, onConnected, onLost, onRefused }) {
    this.tell = { onMessage, onConnected, onLost, onRefused };
  }

  useToken(token) { this.#token = token; }

  get headers() { return this.#token ? { authorization: `Bearer ${this.#token}` } : {}; }

  async ask(path, asked = {}) {
    const response = await fetch(`${path}?${new URLSearchParams(asked)}`, { headers: this.headers });
    return answered(response);
  }

  // Orders are carried out as they were given: each is sent when the one before is answered.
  order(body) {
    const answer = this.#ordered.then(() => this.#order(body));
    this.#ordered = answer.catch(() => {});
    return answer;
  }

  async #order(body) {
    const headers = { ...this.headers, "content-type": "application/json" };
    const signal = AbortSignal.timeout(PATIENCE);
    return answered(await fetch("/api/act", { method: "POST", headers, signal, body: JSON.stringify(body) }));
  }

  // Follow what is chosen, in place of what was before.
  follow(choice) {
    this.#reading?.abort();
    const mine = (this.#reading = new AbortController());
    this.#follow(choice, mine);
  }

  async #follow(choice, mine) {
    while (!mine.signal.aborted) {
      try {
        await this.#read(choice, mine);
      } catch (error) {
        if (mine.signal.aborted) return;
        if (error.status === 401) { this.tell.onRefused(error.message); return; }
        this.tell.onLost(error.message);
      }
      if (mine.signal.aborted) return;
      const pause = AGAIN[Math.min(this.#tries, AGAIN.length - 1)];
      this.#tries += 1;
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  async #read(choice, mine) {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE);
    const signal = AbortSignal.any([mine.signal, silence.signal]);
    try {
      const response = await fetch(`/api/events?${new URLSearchParams(choice)}`, { headers: this.headers, signal });
      if (!response.ok) await answered(response);
      this.#tries = 0;
      this.tell.onConnected();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) throw new Error("the server has closed the connection");
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE);
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          if (part.startsWith("data: ")) this.tell.onMessage(JSON.parse(part.slice(6)));
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }
}

async function answered(response) {
  const said = await response.json().catch(() => ({}));
  if (response.ok) return said;
  const error = new Error(said.error ?? `the server answers ${response.status}`);
  error.status = response.status;
  throw error;
}
