// Times in UTC or in the browser's own time zone, as the reader last chose.
import { useLocalTime } from "./format";

const KEY = "gw.zone";

class Zone {
  local = $state(localStorage.getItem(KEY) === "local");

  constructor() {
    useLocalTime(this.local);
  }

  toggle(): void {
    this.local = !this.local;
    localStorage.setItem(KEY, this.local ? "local" : "utc");
    useLocalTime(this.local);
  }
}

export const zone = new Zone();
