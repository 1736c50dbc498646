/** An answer of the API, with what was asked, so that a failed step can quote both. */
interface Answer {
  /** `POST /v4/balancers` */
  asked: string;
  status: number;
  body: unknown;
}

/** The API as any client sees it: fetch, a token, JSON. */
export interface Cloud {
  ask(method: string, path: string, body?: object): Promise<Answer>;
  /** As `ask`, but anything else than 200 with an object is an error that quotes the answer. */
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body?: object): Promise<T>;
  put<T>(path: string, body: object): Promise<T>;
}

const quote = (answer: Answer): string => `${answer.asked} was answered ${answer.status} ${JSON.stringify(answer.body).slice(0, 600)}`;

/** Every request gets at most this long; a local API that needs more has failed. */
const requestTimeoutMs = 30_000;

export const connectCloud = (url: string, token: string): Cloud => {
  const ask = async (method: string, path: string, body?: object): Promise<Answer> => {
    const response = await fetch(new URL(path, url), {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body ? { "content-type": "application/json" } : {}) },
      signal: AbortSignal.timeout(requestTimeoutMs),
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const text = await response.text();
    try {
      return { asked: `${method} ${path}`, status: response.status, body: JSON.parse(text) };
    } catch {
      throw new Error(`${method} ${path} was answered ${response.status} with a body that is not JSON: ${text.slice(0, 200)}`);
    }
  };
  const success = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const answer = await ask(method, path, body);
    if (answer.status !== 200) throw new Error(quote(answer));
    return answer.body as T;
  };
  return {
    ask,
    get: (path) => success("GET", path),
    post: (path, body) => success("POST", path, body),
    put: (path, body) => success("PUT", path, body),
  };
};
