// Whether the gateway has asked for a credential. Nothing secret is kept here: the session is an HttpOnly cookie.
const KEY = "gw.logged-in";

class Session {
  /** An answer was 401: show the login page. */
  missing = $state(false);
  /** Somebody logged in here, so there is something to log out of. */
  known = $state(localStorage.getItem(KEY) === "1");

  began(): void {
    localStorage.setItem(KEY, "1");
    this.known = true;
    this.missing = false;
  }

  ended(): void {
    localStorage.removeItem(KEY);
    this.known = false;
  }
}

export const session = new Session();
